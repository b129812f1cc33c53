package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

var submitTests = []test{
	{"I3_submit_stores_message_task_and_handoff", func(k *kit) {
		s := submission(func(s *tasks.Submission) {
			s.Request = tasks.Request{
				Content: "hello", Model: "model", System: "be kind", PromptTemplate: "t1",
				Document:    tasks.Document{ID: "doc", Version: "3"},
				Temperature: ptr(0.7), MaxOutputTokens: ptr(99),
			}
			s.MaxAttempts, s.MaxInterruptions, s.OnAmbiguous = 5, 4, tasks.AmbiguousStop
			s.Metadata = map[string]string{"team": "blue", "": "empty"}
			s.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		})
		out := k.submitAll(s)[0]
		t := k.read(s)
		if out.Err != nil || out.TaskID != s.TaskID || out.Replayed || !out.AcceptedAt.Equal(t.AcceptedAt) || !out.Deadline.Equal(t.Deadline) {
			k.Fatalf("submitted %+v, of the task %+v", out, t)
		}
		if t.ID != s.TaskID || t.Workspace != s.Workspace || t.Conversation != s.Conversation || t.MessageID != s.MessageID ||
			t.Kind != tasks.KindReply || t.Regenerates != uuid.Nil || t.Status != tasks.StatusQueued || t.Version != 0 ||
			t.Budget != (tasks.Budget{MaxAttempts: 5, MaxInterruptions: 4}) || t.Model != "model" ||
			t.Document != s.Request.Document || t.OnAmbiguous != tasks.AmbiguousStop || t.Reply != nil || t.Failure != nil {
			k.Fatalf("task %+v", t)
		}
		if t.AcceptedAt.IsZero() || t.AvailableAt.Sub(t.AcceptedAt).Abs() > time.Second ||
			(t.Deadline.Sub(t.AcceptedAt)-deadline).Abs() > time.Second || !t.FinishedAt.IsZero() {
			k.Fatalf("times of the task %+v", t)
		}
		if len(t.Metadata) != 2 || t.Metadata["team"] != "blue" || t.Metadata[""] != "empty" {
			k.Fatalf("metadata %v", t.Metadata)
		}
		if m := k.conversation(workspace, "c"); len(m) != 1 || m[0].ID != s.MessageID || m[0].Content != "hello" || m[0].CreatedAt.IsZero() || len(m[0].Replies) != 0 {
			k.Fatalf("conversation %+v", m)
		}
		h := k.Handoffs()
		if len(h) != 1 || h[0].TaskID != s.TaskID || h[0].Workspace != workspace || h[0].Conversation != "c" ||
			h[0].TraceParent != s.TraceParent || !h[0].AcceptedAt.Equal(t.AcceptedAt) || h[0].Shard != tasks.Shard(workspace, "c") {
			k.Fatalf("handoffs %+v", h)
		}
		if a := k.ledger(s); len(a) != 0 {
			k.Fatalf("attempts before any claim: %+v", a)
		}
		if w := k.take(s); w.Request.Content != "hello" || w.Request.System != "be kind" || w.Request.PromptTemplate != "t1" ||
			w.Request.Model != "model" || w.Request.Document != s.Request.Document || w.Request.Temperature == nil ||
			*w.Request.Temperature != 0.7 || w.Request.MaxOutputTokens == nil || *w.Request.MaxOutputTokens != 99 ||
			w.OnAmbiguous != tasks.AmbiguousStop {
			k.Fatalf("work %+v", w)
		}
	}},
	{"submit_of_nothing", func(k *kit) { k.submitAll() }},
	{"I6_a_repeat_finds_its_task", func(k *kit) {
		s := k.submit()
		again := submission(func(n *tasks.Submission) { n.Key = s.Key })
		for _, status := range []tasks.Status{tasks.StatusQueued, tasks.StatusRunning, tasks.StatusCompleted} {
			if got := k.read(s).Status; got != status {
				k.Fatalf("the task is %s, want %s", got, status)
			}
			if out := k.submitAll(again)[0]; out.Err != nil || out.TaskID != s.TaskID || !out.Replayed {
				k.Fatalf("repeat of a %s task: %+v", status, out)
			}
			switch status {
			case tasks.StatusQueued:
				k.take(s)
			case tasks.StatusRunning:
				t := k.read(s)
				k.settle(complete(tasks.Work{Assignment: tasks.Assignment{TaskID: s.TaskID, Workspace: workspace, Version: t.Version}}, "x"),
					tasks.VerdictAccepted, tasks.StatusCompleted)
			}
		}
		k.wantCount(1)
	}},
	{"I6_other_inputs_are_refused", func(k *kit) {
		s := k.submit()
		other := submission(func(n *tasks.Submission) { n.Key, n.Request.Content = s.Key, "something else" })
		if out := k.submitAll(other)[0]; !errors.Is(out.Err, tasks.ErrKeyReused) || out.TaskID != s.TaskID {
			k.Fatalf("same key, other inputs: %+v", out)
		}
		_, err := k.Store.Task(k.ctx, workspace, other.TaskID)
		k.wantError(err, tasks.ErrNotFound)
		k.wantCount(1)
	}},
	{"I6_one_key_in_one_batch", func(k *kit) {
		first := submission()
		same := submission(func(n *tasks.Submission) { n.Key = first.Key })
		other := submission(func(n *tasks.Submission) { n.Key, n.Request.Model = first.Key, "another" })
		out := k.submitAll(first, same, other, submission())
		if out[0].Err != nil || out[0].TaskID != first.TaskID || out[0].Replayed {
			k.Fatalf("first: %+v", out[0])
		}
		if out[1].Err != nil || out[1].TaskID != first.TaskID || !out[1].Replayed {
			k.Fatalf("same: %+v", out[1])
		}
		if !errors.Is(out[2].Err, tasks.ErrKeyReused) || out[2].TaskID != first.TaskID {
			k.Fatalf("other: %+v", out[2])
		}
		k.wantCount(2)
	}},
	{"I6_200_submissions_of_one_key_at_once", func(k *kit) {
		var stored atomic.Int64
		items := make([]tasks.Submission, 200)
		got := make([]uuid.UUID, len(items))
		for i := range items {
			items[i] = submission(func(s *tasks.Submission) { s.Key = "the one" })
		}
		together(len(items), func(i int) {
			out := k.submitAlone(items[i])
			if out.Err != nil {
				k.Errorf("submission %d: %v", i, out.Err)
			}
			if !out.Replayed {
				stored.Add(1)
			}
			got[i] = out.TaskID
		})
		if len(slices.Compact(got)) != 1 || got[0] == uuid.Nil || stored.Load() != 1 {
			k.Fatalf("%d submissions stored something; tasks %v", stored.Load(), slices.Compact(got))
		}
		k.wantCount(1)
	}},
	{"I6_batches_of_the_same_keys_in_opposite_order", func(k *kit) {
		const n = 40
		batches := make([][]tasks.Submission, 4)
		for b := range batches {
			for i := range n {
				batches[b] = append(batches[b], submission(func(s *tasks.Submission) { s.Key = fmt.Sprint("key ", i) }))
			}
			if b%2 == 1 {
				slices.Reverse(batches[b])
			}
		}
		together(len(batches), func(b int) {
			out, err := k.Store.Submit(k.ctx, batches[b])
			if err != nil {
				k.Errorf("batch %d: %v", b, err)
			}
			for _, o := range out {
				if o.Err != nil && !errors.Is(o.Err, tasks.ErrInProgress) {
					k.Errorf("batch %d: %v", b, o.Err)
				}
			}
		})
		k.wantCount(n)
	}},
	{"an_expired_key_is_free", func(k *kit) {
		short := func(s *tasks.Submission) { s.Key, s.Retention = "k", time.Hour }
		first := k.submit(short)
		k.Advance(59 * time.Minute)
		if out := k.submitAll(submission(short))[0]; out.TaskID != first.TaskID || !out.Replayed {
			k.Fatalf("within its retention: %+v", out)
		}
		k.Advance(2 * time.Minute)
		second := k.submit(short, func(s *tasks.Submission) { s.Request.Content = "something else" })
		if out := k.submitAll(submission(short))[0]; !errors.Is(out.Err, tasks.ErrKeyReused) || out.TaskID != second.TaskID {
			k.Fatalf("the key is bound anew: %+v", out)
		}
		if k.read(first).Status != tasks.StatusQueued {
			k.Fatalf("the first task has to live on")
		}
		k.wantCount(2)
	}},
	{"I8_keys_are_of_a_workspace_and_an_operation", func(k *kit) {
		k.submit(func(s *tasks.Submission) { s.Key = "k" })
		k.submit(func(s *tasks.Submission) { s.Key, s.Workspace = "k", "w2" })
		k.submit(func(s *tasks.Submission) { s.Key, s.Operation = "k", "other" })
		k.wantCount(3)
	}},
	{"I6_regenerate_is_new_work_on_the_same_message", func(k *kit) {
		s, w := k.started()
		k.settle(complete(w, "first"), tasks.VerdictAccepted, tasks.StatusCompleted)
		anew := k.submit(func(n *tasks.Submission) {
			n.Kind, n.Regenerates, n.MessageID = tasks.KindRegenerate, s.TaskID, s.MessageID
		})
		if t := k.read(anew); t.Kind != tasks.KindRegenerate || t.Regenerates != s.TaskID || t.MessageID != s.MessageID {
			k.Fatalf("task %+v", t)
		}
		w = k.take(anew)
		if w.Request.Content != "hello" {
			k.Fatalf("work %+v", w)
		}
		k.settle(complete(w, "second"), tasks.VerdictAccepted, tasks.StatusCompleted)
		if m := k.conversation(workspace, "c"); len(m) != 1 || len(m[0].Replies) != 2 || m[0].Replies[0].Text != "first" || m[0].Replies[1].Text != "second" {
			k.Fatalf("conversation %+v", m)
		}
	}},
}

// submitAlone submits one item from a goroutine, again while the first submission of its key is in progress.
func (k *kit) submitAlone(item tasks.Submission) tasks.Submitted {
	for {
		out, err := k.Store.Submit(k.ctx, []tasks.Submission{item})
		if err != nil {
			return tasks.Submitted{Err: err}
		}
		if !errors.Is(out[0].Err, tasks.ErrInProgress) {
			return out[0]
		}
	}
}

// wantCount wants n tasks in all, a handoff of each, and a message of each in the conversation c of both workspaces.
func (k *kit) wantCount(n int) {
	k.Helper()
	all, err := k.Store.Tasks(k.ctx, tasks.Filter{Limit: 1000})
	if err != nil {
		k.Fatalf("read tasks: %v", err)
	}
	messages := len(k.conversation(workspace, "c")) + len(k.conversation("w2", "c"))
	if h := k.Handoffs(); len(all) != n || len(h) != n || messages != n {
		k.Fatalf("%d tasks, %d handoffs, %d messages; want %d of each", len(all), len(h), messages, n)
	}
}
