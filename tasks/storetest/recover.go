package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Outbox is the part of outbox.Store that the suite needs.
type Outbox interface {
	Delete(ctx context.Context, published []tasks.Handoff) error
	Promote(ctx context.Context, limit int) (int, error)
	Snapshot(ctx context.Context, bound int) (s tasks.Snapshot, complete bool, err error)
	Recover(ctx context.Context, s tasks.Snapshot, due time.Duration, after uuid.UUID, limit int) (recovered []uuid.UUID, next uuid.UUID, err error)
}

// published takes all handoffs out of the outbox, as a dispatcher does.
func (k *kit) published() {
	k.Helper()
	if err := k.Outbox.Delete(k.ctx, k.Handoffs()); err != nil {
		k.Fatalf("delete: %v", err)
	}
}

func (k *kit) snapshot() tasks.Snapshot {
	k.Helper()
	s, complete, err := k.Outbox.Snapshot(k.ctx, 1000)
	if err != nil || !complete {
		k.Fatalf("snapshot: complete %t, %v", complete, err)
	}
	return s
}

// recover wants exactly these tasks to be handed off again, in the order of their ids.
func (k *kit) recover(s tasks.Snapshot, want ...tasks.Submission) {
	k.Helper()
	before := len(k.Handoffs())
	got, next, err := k.Outbox.Recover(k.ctx, s, 0, uuid.Nil, 1000)
	if err != nil || next != uuid.Nil {
		k.Fatalf("recover: next %v, %v", next, err)
	}
	var ids []uuid.UUID
	for _, s := range want {
		ids = append(ids, s.TaskID)
	}
	if !slices.Equal(got, ids) {
		k.Fatalf("recovered %v, want %v", got, ids)
	}
	var handed []uuid.UUID
	for _, h := range k.Handoffs()[before:] {
		handed = append(handed, h.TaskID)
	}
	if !slices.Equal(handed, ids) {
		k.Fatalf("handoffs of %v, want of %v", handed, ids)
	}
}

var recoverTests = []test{
	{"I3_a_lost_task_is_handed_off_again_once", func(k *kit) {
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		s := k.submit(func(s *tasks.Submission) { s.TraceParent = trace })
		was := k.Handoffs()[0]
		k.published()
		before, after := k.snapshot(), k.snapshot()
		k.recover(before, s)
		is := k.Handoffs()[0]
		if was.ID = is.ID; was != is {
			k.Fatalf("handoff %+v, want %+v", is, was)
		}
		k.recover(after)
		k.recover(k.snapshot())
		k.published()
		k.recover(before)
		k.recover(after)
		k.recover(k.snapshot(), s) // lost once more
		if w := k.take(s); w.Attempts != 1 {
			k.Fatalf("attempt %d, want the first", w.Attempts)
		}
	}},
	{"I3_a_lost_acknowledgement_recovers_nothing_twice", func(k *kit) {
		k.submit()
		k.published()
		snapshot := k.snapshot()
		k.LoseAck()
		_, _, _ = k.Outbox.Recover(k.ctx, snapshot, 0, uuid.Nil, 10)
		_, _, err := k.Outbox.Recover(k.ctx, snapshot, 0, uuid.Nil, 10)
		if n := len(k.Handoffs()); err != nil || n != 1 {
			k.Fatalf("%d handoffs, want 1; %v", n, err)
		}
	}},
	{"a_handoff_at_the_snapshot_or_after_it_keeps_a_task_from_being_recovered", func(k *kit) {
		a := k.submit()
		snapshot := k.snapshot()
		b := k.submit()
		k.recover(snapshot)
		k.published()
		k.recover(snapshot)
		k.recover(k.snapshot(), a, b)
	}},
	{"a_delayed_handoff_keeps_a_task_from_being_recovered", func(k *kit) {
		s, w := k.started()
		k.published()
		later := retry(w, 30*time.Minute)
		later.Handoff = true
		k.settle(later, tasks.VerdictAccepted, tasks.StatusQueued)
		k.recover(k.snapshot())
		k.Advance(31 * time.Minute)
		due := k.snapshot()
		k.recover(due)
		if n, err := k.Outbox.Promote(k.ctx, 10); err != nil || n != 1 {
			k.Fatalf("promoted %d, %v", n, err)
		}
		k.recover(due)
		k.published()
		k.recover(due)
		k.recover(k.snapshot(), s)
	}},
	{"a_task_that_is_not_due_is_not_lost", func(k *kit) {
		s, w := k.started()
		k.published()
		k.settle(retry(w, 30*time.Minute), tasks.VerdictAccepted, tasks.StatusQueued)
		k.recover(k.snapshot())
		k.Advance(31 * time.Minute)
		if got, _, err := k.Outbox.Recover(k.ctx, k.snapshot(), 10*time.Minute, uuid.Nil, 10); err != nil || len(got) != 0 {
			k.Fatalf("recovered %v, %v; want none that has not been due for ten minutes", got, err)
		}
		k.recover(k.snapshot(), s)
	}},
	{"I4_a_live_lease_keeps_a_task_from_being_recovered", func(k *kit) {
		s, w := k.started()
		k.published()
		k.recover(k.snapshot())
		k.Advance(lease - 10*time.Minute)
		if !k.renew(w.Assignment) {
			k.Fatalf("renew: lost")
		}
		k.Advance(lease - 10*time.Minute)
		k.recover(k.snapshot())
		k.Advance(11 * time.Minute)
		k.recover(k.snapshot(), s)
		if w := k.take(s); w.Attempts != 2 || w.Interruptions != 1 {
			k.Fatalf("attempt %d after %d interruptions, want a takeover", w.Attempts, w.Interruptions)
		}
	}},
	{"what_has_moved_since_the_snapshot_is_not_lost", func(k *kit) {
		var all []tasks.Submission
		for range 6 {
			all = append(all, k.submit())
		}
		ended := k.take(all[0])
		k.settle(complete(ended, "hello"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.published()
		snapshot := k.snapshot()
		k.settle(complete(k.take(all[1]), "hello"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.settle(retry(k.take(all[2]), 0), tasks.VerdictAccepted, tasks.StatusQueued)
		k.settle(fail(k.take(all[3])), tasks.VerdictAccepted, tasks.StatusFailed)
		if _, _, err := k.Store.Cancel(k.ctx, workspace, all[4].TaskID); err != nil {
			k.Fatalf("cancel: %v", err)
		}
		k.take(all[5])
		k.recover(snapshot)
	}},
	{"a_recovery_goes_over_the_unfinished_tasks_in_pages", func(k *kit) {
		var want []uuid.UUID
		for i := range 50 {
			s := k.submit(func(s *tasks.Submission) { s.Conversation = fmt.Sprint("c", i%3) })
			if i%2 == 0 {
				k.settle(complete(k.take(s), "hello"), tasks.VerdictAccepted, tasks.StatusCompleted)
				continue
			}
			want = append(want, s.TaskID)
		}
		k.published()
		snapshot := k.snapshot()
		var got []uuid.UUID
		after, pages := uuid.Nil, 0
		for more := true; more; more = after != uuid.Nil {
			var page []uuid.UUID
			var err error
			if page, after, err = k.Outbox.Recover(k.ctx, snapshot, 0, after, 10); err != nil || len(page) > 10 {
				k.Fatalf("%d recovered, %v", len(page), err)
			}
			got = append(got, page...)
			if pages++; pages > 10 {
				k.Fatalf("no end after %d pages", pages)
			}
		}
		var handed []uuid.UUID
		for _, h := range k.Handoffs() {
			handed = append(handed, h.TaskID)
		}
		if !slices.Equal(got, want) || !slices.Equal(handed, want) {
			k.Fatalf("recovered %v, handed off %v, want %v", got, handed, want)
		}
	}},
	{"a_snapshot_of_a_long_outbox_is_not_complete", func(k *kit) {
		for range 3 {
			k.submit()
		}
		for bound, want := range map[int]bool{2: false, 3: true} {
			if _, complete, err := k.Outbox.Snapshot(k.ctx, bound); err != nil || complete != want {
				k.Fatalf("bound %d: complete %t, %v", bound, complete, err)
			}
		}
	}},
}
