package storetest

import (
	"errors"

	"github.com/fencepost/fencepost/tasks"
)

// lost makes the acknowledgement of the next operation be lost, and wants do to be told of no more than that: either it
// found out by itself, or it got ErrUnavailable.
func (k *kit) lost(do func() error) {
	k.Helper()
	k.LoseAck()
	if err := do(); err != nil && !errors.Is(err, tasks.ErrUnavailable) {
		k.Fatalf("after a lost acknowledgement: %v, want %v", err, tasks.ErrUnavailable)
	}
}

// wantOwn wants a repeat of the very submission that was stored to be answered as the first was, or would have been.
func (k *kit) wantOwn(s tasks.Submission) {
	k.Helper()
	out, t := k.submitAll(s)[0], k.read(s)
	if out.Err != nil || out.TaskID != s.TaskID || out.Replayed || !out.AcceptedAt.Equal(t.AcceptedAt) || !out.Deadline.Equal(t.Deadline) {
		k.Fatalf("the repeat of a submission: %+v, of the task %+v", out, t)
	}
	k.wantCount(1)
}

var ackTests = []test{
	{"I3_submit_whose_acknowledgement_was_lost", func(k *kit) {
		s := submission()
		k.lost(func() error { _, err := k.Store.Submit(k.ctx, []tasks.Submission{s}); return err })
		k.wantOwn(s)
	}},
	{"I3_a_submission_handed_in_twice", func(k *kit) {
		s := k.submit()
		k.wantOwn(s)
		k.take(s)
		k.wantOwn(s)
	}},
	{"I1_settle_whose_acknowledgement_was_lost", func(k *kit) {
		for _, outcome := range everyOutcome(tasks.Work{}) {
			s, w := k.started()
			item := outcome
			item.Assignment = w.Assignment
			k.lost(func() error { _, err := k.Store.Settle(k.ctx, []tasks.Settlement{item}); return err })
			status := k.read(s).Status
			k.settle(item, tasks.VerdictAccepted, status)
			if t := k.read(s); len(k.ledger(s)) != t.Attempts || t.Status == tasks.StatusRunning {
				k.Fatalf("task %+v, ledger %+v", t, k.ledger(s))
			}
			if item.Outcome == tasks.OutcomeComplete {
				k.wantReply(s, "late")
			}
		}
	}},
	{"I5_claim_whose_acknowledgement_was_lost", func(k *kit) {
		s := k.submit()
		var got []tasks.Claimed
		k.lost(func() (err error) { got, err = k.Store.Claim(k.ctx, claimer(), []tasks.Ref{ref(s)}); return err })
		// The assignment is taken; whoever asks again, the same worker too, waits for its lease rather than call twice.
		k.wantClaim(s, tasks.DecisionLeased, tasks.StatusRunning)
		if t := k.read(s); t.Attempts != 1 || t.Version != 1 || len(k.ledger(s)) != 1 {
			k.Fatalf("task %+v, claimed %+v", t, got)
		}
	}},
	{"cancel_whose_acknowledgement_was_lost", func(k *kit) {
		s := k.submit()
		k.lost(func() error { _, _, err := k.Store.Cancel(k.ctx, workspace, s.TaskID); return err })
		k.cancel(s, false, tasks.StatusCancelled)
	}},
}
