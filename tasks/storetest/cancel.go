package storetest

import (
	"sync"

	"github.com/fencepost/fencepost/tasks"
)

// cancel cancels the task, and wants to be told whether that changed it.
func (k *kit) cancel(s tasks.Submission, changed bool, status tasks.Status) {
	k.Helper()
	t, did, err := k.Store.Cancel(k.ctx, s.Workspace, s.TaskID)
	if err != nil || did != changed || t.ID != s.TaskID || t.Status != status || t.FinishedAt.IsZero() {
		k.Fatalf("cancel: %t, %v, task %+v; want %t and %s", did, err, t, changed, status)
	}
}

var cancelTests = []test{
	{"cancel_of_a_queued_task", func(k *kit) {
		s := k.submit()
		k.cancel(s, true, tasks.StatusCancelled)
		k.wantClaim(s, tasks.DecisionFinished, tasks.StatusCancelled)
		k.cancel(s, false, tasks.StatusCancelled)
		if t := k.read(s); t.Attempts != 0 || t.Reply != nil {
			k.Fatalf("task %+v", t)
		}
	}},
	{"cancel_refuses_every_later_settle", func(k *kit) {
		for i := range everyOutcome(tasks.Work{}) {
			s, w := k.started()
			k.cancel(s, true, tasks.StatusCancelled)
			if k.renew(w.Assignment) {
				k.Fatalf("the assignment of a cancelled task was renewed")
			}
			k.settle(everyOutcome(w)[i], tasks.VerdictCancelled, tasks.StatusCancelled)
			if t := k.read(s); t.Status != tasks.StatusCancelled || t.Reply != nil {
				k.Fatalf("task %+v", t)
			}
			if a := k.ledger(s); len(a) != 1 || a[0].Outcome != tasks.AttemptNotAccepted || a[0].EndedAt.IsZero() {
				k.Fatalf("ledger %+v", a)
			}
		}
	}},
	{"cancel_after_the_end_changes_nothing", func(k *kit) {
		s, w := k.started()
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.cancel(s, false, tasks.StatusCompleted)
		k.wantReply(s, "reply")
		s, w = k.started()
		k.settle(fail(w), tasks.VerdictAccepted, tasks.StatusFailed)
		k.cancel(s, false, tasks.StatusFailed)
		k.wantFailed(s, "permanent")
	}},
	{"cancel_of_an_unknown_task", func(k *kit) {
		_, _, err := k.Store.Cancel(k.ctx, workspace, newID())
		k.wantError(err, tasks.ErrNotFound)
	}},
	{"I1_cancel_and_settle_at_once", func(k *kit) {
		for range 25 {
			s, w := k.started()
			var mu sync.Mutex
			var cancelled, accepted bool
			together(2, func(i int) {
				if i == 0 {
					_, did, err := k.Store.Cancel(k.ctx, workspace, s.TaskID)
					if err != nil {
						k.Errorf("cancel: %v", err)
					}
					mu.Lock()
					cancelled = did
					mu.Unlock()
					return
				}
				out, err := k.Store.Settle(k.ctx, []tasks.Settlement{complete(w, "reply")})
				if err != nil {
					k.Errorf("settle: %v", err)
					return
				}
				mu.Lock()
				accepted = out[0].Verdict == tasks.VerdictAccepted
				mu.Unlock()
			})
			t := k.read(s)
			if cancelled == accepted || cancelled != (t.Status == tasks.StatusCancelled) || accepted != (t.Reply != nil) || accepted != (len(k.replies(s)) == 1) {
				k.Fatalf("cancelled %t, accepted %t, task %+v", cancelled, accepted, t)
			}
		}
	}},
}
