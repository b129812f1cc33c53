package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// sweeper is what a store has beside tasks.Store to delete what is old.
type sweeper interface {
	Sweep(ctx context.Context, c tasks.SweepConfig) (tasks.Swept, error)
}

func (k *kit) sweep(c tasks.SweepConfig) tasks.Swept {
	k.Helper()
	store, ok := k.Store.(sweeper)
	if !ok {
		k.Fatalf("%T has no Sweep", k.Store)
	}
	out, err := store.Sweep(k.ctx, c)
	if err != nil {
		k.Fatalf("sweep: %v", err)
	}
	return out
}

// wantSwept sweeps to the end and wants so many in all.
func (k *kit) wantSwept(c tasks.SweepConfig, keys, old int) {
	k.Helper()
	var sum tasks.Swept
	for range 100 {
		s := k.sweep(c)
		if limit := c.WithDefaults().Limit; s.Keys > limit || s.Tasks > limit {
			k.Fatalf("swept %+v at once, the limit is %d", s, limit)
		}
		sum.Keys, sum.Tasks = sum.Keys+s.Keys, sum.Tasks+s.Tasks
		if c.After = s.After; !s.More {
			if sum.Keys != keys || sum.Tasks != old {
				k.Fatalf("swept %d keys and %d tasks, want %d and %d", sum.Keys, sum.Tasks, keys, old)
			}
			return
		}
	}
	k.Fatalf("a sweep does not end: %+v", sum)
}

// finish completes the task.
func (k *kit) finish(s tasks.Submission, text string) {
	k.Helper()
	k.settle(complete(k.take(s), text), tasks.VerdictAccepted, tasks.StatusCompleted)
}

func (k *kit) gone(s tasks.Submission) bool {
	k.Helper()
	_, err := k.Store.Task(k.ctx, s.Workspace, s.TaskID)
	if err != nil && !errors.Is(err, tasks.ErrNotFound) {
		k.Fatalf("read task: %v", err)
	}
	return err != nil
}

var sweepTests = []test{
	{"I6_only_expired_keys_of_finished_tasks_are_swept", func(k *kit) {
		short := func(s *tasks.Submission) { s.Retention = time.Hour }
		var done []tasks.Submission
		for range 5 {
			s := k.submit(short)
			k.finish(s, "x")
			done = append(done, s)
		}
		queued := k.submit(short, func(s *tasks.Submission) { s.DeadlineAfter = 10 * deadline })
		running, _ := k.started(short)
		long := k.submit()
		k.finish(long, "x")
		k.wantSwept(tasks.SweepConfig{}, 0, 0)
		k.Advance(2 * time.Hour)
		if dry := k.sweep(tasks.SweepConfig{DryRun: true}); dry.Keys != 5 || dry.More {
			k.Fatalf("a dry run: %+v", dry)
		}
		if dry := k.sweep(tasks.SweepConfig{DryRun: true, Limit: 2}); dry.Keys != 2 || !dry.More {
			k.Fatalf("a dry run of few: %+v", dry)
		}
		k.wantSwept(tasks.SweepConfig{Limit: 2}, 5, 0)
		for _, s := range []tasks.Submission{queued, running, long} {
			k.wantReplays(s, 0) // there still
		}
		for _, s := range done {
			k.wantReply(s, "x")
		}
		k.settle(fail(k.take(queued)), tasks.VerdictAccepted, tasks.StatusFailed)
		k.wantSwept(tasks.SweepConfig{}, 1, 0)
	}},
	{"an_old_task_goes_with_all_that_is_its_own", func(k *kit) {
		const age = 48 * time.Hour
		c := tasks.SweepConfig{Tasks: age}
		old := k.submit()
		k.finish(old, "old")
		failed := k.submit(func(s *tasks.Submission) { s.Conversation = "d" })
		k.settle(fail(k.take(failed)), tasks.VerdictAccepted, tasks.StatusFailed)
		pending := k.submit(func(s *tasks.Submission) { s.DeadlineAfter = 10 * deadline })
		remembered := k.submit(func(s *tasks.Submission) { s.Retention = 10 * deadline })
		k.finish(remembered, "its key is known")
		elsewhere := k.submit(func(s *tasks.Submission) { s.Workspace = "w2" })
		k.finish(elsewhere, "of another workspace")
		k.Advance(age - time.Hour)
		young := k.submit(func(s *tasks.Submission) { s.Retention = time.Minute })
		k.finish(young, "young")
		k.wantSwept(tasks.SweepConfig{}, 3, 0) // kept for ever
		k.wantSwept(c, 0, 0)
		k.Advance(2 * time.Hour)
		c.DryRun = true
		k.wantSwept(c, 1, 3)
		c.DryRun = false
		k.wantSwept(c, 1, 3)
		for _, s := range []tasks.Submission{old, failed, elsewhere} {
			if !k.gone(s) {
				k.Fatalf("a task that finished %s ago is there", age+time.Hour)
			}
			_, err := k.Store.Attempts(k.ctx, s.Workspace, s.TaskID)
			k.wantError(err, tasks.ErrNotFound)
			_, err = k.Store.Original(k.ctx, s.Workspace, s.TaskID)
			k.wantError(err, tasks.ErrNotFound)
		}
		m := k.conversation(workspace, "c")
		if len(m) != 3 || m[0].ID != pending.MessageID || len(k.conversation(workspace, "d")) != 0 || len(k.conversation("w2", "c")) != 0 {
			k.Fatalf("conversation %+v", m)
		}
		k.wantReply(remembered, "its key is known")
		k.wantReply(young, "young")
		k.wantSwept(c, 0, 0)
		if out := k.submitAll(submission(func(s *tasks.Submission) { s.Key = old.Key }))[0]; out.Err != nil || out.Replayed {
			k.Fatalf("under the key of a task that is gone: %+v", out)
		}
	}},
	{"a_message_stays_while_something_answers_it_anew", func(k *kit) {
		const age = 48 * time.Hour
		c := tasks.SweepConfig{Tasks: age}
		s := k.submit()
		k.finish(s, "first")
		k.Advance(age - time.Hour)
		anew := k.submit(func(n *tasks.Submission) {
			n.Kind, n.Regenerates, n.MessageID = tasks.KindRegenerate, s.TaskID, s.MessageID
		})
		k.finish(anew, "second")
		k.Advance(2 * time.Hour)
		k.wantSwept(c, 1, 0)
		if k.gone(s) || len(k.replies(s)) != 2 {
			k.Fatalf("the task of a message is gone while another answers it: %q", k.replies(s))
		}
		k.Advance(age)
		k.wantSwept(c, 1, 1)
		if !k.gone(anew) || k.gone(s) || len(k.replies(s)) != 1 {
			k.Fatalf("what regenerates goes first: %q", k.replies(s))
		}
		k.wantSwept(c, 0, 1)
		if !k.gone(s) || len(k.conversation(workspace, "c")) != 0 {
			k.Fatalf("the message is there")
		}
	}},
	{"a_sweep_of_many_tasks_ends_and_passes_those_that_stay", func(k *kit) {
		c := tasks.SweepConfig{Tasks: time.Hour, Limit: 7}
		var stay, items []tasks.Submission
		for i := range 40 {
			s := submission(func(s *tasks.Submission) { s.Retention, s.DeadlineAfter = time.Minute, 10*deadline })
			if items = append(items, s); i%3 == 0 {
				stay = append(stay, s)
			}
		}
		k.submitAll(items...)
		left := make(map[uuid.UUID]bool)
		for _, s := range stay {
			left[s.TaskID] = true
		}
		for _, s := range items {
			if !left[s.TaskID] {
				k.finish(s, "x")
			}
		}
		k.Advance(2 * time.Hour)
		k.wantSwept(c, len(items)-len(stay), len(items)-len(stay))
		for _, s := range items {
			if k.gone(s) == left[s.TaskID] {
				k.Fatalf("a task is gone that should stay, or the other way round")
			}
		}
	}},
}
