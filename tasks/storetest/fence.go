package storetest

import (
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// real is a lease that runs out while a test holds a lock, and so in real time on Postgres.
const real = time.Second

var fenceTests = []test{
	{"I4_late_settle_before_the_successors", func(k *kit) {
		for i := range everyOutcome(tasks.Work{}) {
			s, first := k.started()
			k.Advance(lease + time.Minute)
			second := k.take(s)
			k.settle(everyOutcome(first)[i], tasks.VerdictTakenOver, tasks.StatusRunning)
			if t := k.read(s); t.Version != second.Version || t.Attempts != 2 || t.Reply != nil || t.Failure != nil {
				k.Fatalf("the late settle changed the task: %+v", t)
			}
			if !k.renew(second.Assignment) || k.renew(first.Assignment) {
				k.Fatalf("the successor must hold the task, and nobody else")
			}
			k.settle(complete(second, "successor"), tasks.VerdictAccepted, tasks.StatusCompleted)
			k.wantReply(s, "successor")
		}
	}},
	{"I4_late_settle_after_the_successors", func(k *kit) {
		for i := range everyOutcome(tasks.Work{}) {
			s, first := k.started()
			k.Advance(lease + time.Minute)
			k.settle(complete(k.take(s), "successor"), tasks.VerdictAccepted, tasks.StatusCompleted)
			k.settle(everyOutcome(first)[i], tasks.VerdictTerminal, tasks.StatusCompleted)
			k.wantReply(s, "successor")
			if a := k.ledger(s); len(a) != 2 || a[0].Outcome != tasks.AttemptNotAccepted || a[1].Outcome != tasks.AttemptAccepted {
				k.Fatalf("ledger %+v", a)
			}
		}
	}},
	{"I4_late_settle_while_the_task_is_queued_again", func(k *kit) {
		s, first := k.started()
		k.Advance(lease + time.Minute)
		k.settle(retry(k.take(s), 0), tasks.VerdictAccepted, tasks.StatusQueued)
		k.settle(complete(first, "late"), tasks.VerdictTakenOver, tasks.StatusQueued)
		k.settle(complete(k.take(s), "third"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "third")
	}},
	{"I4_an_expired_lease_settles_nothing", func(k *kit) {
		for i := range everyOutcome(tasks.Work{}) {
			s, w := k.started()
			k.Advance(lease + time.Minute)
			k.settle(everyOutcome(w)[i], tasks.VerdictExpired, tasks.StatusRunning)
			if a := k.ledger(s); len(a) != 1 || a[0].Outcome != tasks.AttemptNotAccepted || a[0].EndedAt.IsZero() {
				k.Fatalf("ledger %+v", a)
			}
			if w := k.take(s); w.Version != 2 || w.Attempts != 2 || w.Interruptions != 1 {
				k.Fatalf("takeover %+v", w)
			}
		}
	}},
	{"I4_a_version_that_was_never_given", func(k *kit) {
		s, w := k.started()
		w.Version++
		for _, item := range everyOutcome(w) {
			if out := k.settleAll(item)[0]; out.Verdict == tasks.VerdictAccepted || out.Status != tasks.StatusRunning {
				k.Fatalf("%s: %+v", item.Outcome, out)
			}
		}
		if t := k.read(s); t.Status != tasks.StatusRunning || t.Attempts != 1 || len(k.ledger(s)) != 1 {
			k.Fatalf("task %+v", t)
		}
	}},
	{"I4_both_versions_in_one_batch", func(k *kit) {
		for _, lateFirst := range []bool{true, false} {
			s, first := k.started()
			k.Advance(lease + time.Minute)
			second := k.take(s)
			items := []tasks.Settlement{complete(first, "late"), complete(second, "successor")}
			late, current := 0, 1
			if !lateFirst {
				items[0], items[1] = items[1], items[0]
				late, current = 1, 0
			}
			out := k.settleAll(items...)
			if out[current].Verdict != tasks.VerdictAccepted ||
				(out[late].Verdict != tasks.VerdictTakenOver && out[late].Verdict != tasks.VerdictTerminal) {
				k.Fatalf("late first %t: %+v", lateFirst, out)
			}
			k.wantReply(s, "successor")
		}
	}},
	// A statement that began while the lease was alive, and got the row's lock when it was over: a guard that reads
	// now(), or reads the clock before it has the lock, lets these pass.
	{"I4_settle_that_waited_for_the_lock_past_its_lease", func(k *kit) {
		s := k.submit()
		w := k.takeFor(s, real)
		k.whileHeld(s, real, func() {
			out, err := k.Store.Settle(k.ctx, []tasks.Settlement{complete(w, "late")})
			if err != nil || out[0].Verdict != tasks.VerdictExpired {
				k.Errorf("settle: %+v, %v; want %s", out, err, tasks.VerdictExpired)
			}
		})
		if t := k.read(s); t.Status != tasks.StatusRunning || t.Reply != nil || len(k.replies(s)) != 0 {
			k.Fatalf("task %+v", t)
		}
	}},
	{"I4_renew_that_waited_for_the_lock_past_its_lease", func(k *kit) {
		s := k.submit()
		w := k.takeFor(s, real)
		k.whileHeld(s, real, func() {
			out, err := k.Store.Renew(k.ctx, lease, []tasks.Assignment{w.Assignment})
			if err != nil || out[0] != tasks.RenewalLost {
				k.Errorf("renew: %v, %v", out, err)
			}
		})
		k.take(s)
	}},
	{"I4_claim_that_waited_for_the_lock_past_the_lease", func(k *kit) {
		s := k.submit()
		w := k.takeFor(s, real)
		k.whileHeld(s, real, func() {
			out, err := k.Store.Claim(k.ctx, claimer(), []tasks.Ref{ref(s)})
			if err != nil || out[0].Decision != tasks.DecisionClaimed || out[0].Work.Version != 2 || out[0].Work.Interruptions != 1 {
				k.Errorf("claim: %+v, %v", out, err)
			}
		})
		k.settle(complete(w, "late"), tasks.VerdictTakenOver, tasks.StatusRunning)
	}},
	{"a_reply_that_waited_for_the_lock_past_the_deadline", func(k *kit) {
		s, w := k.started(func(s *tasks.Submission) { s.DeadlineAfter = real })
		k.whileHeld(s, real, func() {
			out, err := k.Store.Settle(k.ctx, []tasks.Settlement{complete(w, "late")})
			if err != nil || out[0].Verdict != tasks.VerdictDeadline || out[0].Status != tasks.StatusFailed {
				k.Errorf("settle: %+v, %v", out, err)
			}
		})
		k.wantFailed(s, tasks.ClassDeadline)
	}},
}

// takeFor claims a task for a lease that runs out in real time.
func (k *kit) takeFor(s tasks.Submission, lease time.Duration) tasks.Work {
	k.Helper()
	by := claimer()
	by.Lease = lease
	c := k.claimAll(by, ref(s))[0]
	if c.Work == nil {
		k.Fatalf("claim: %+v", c)
	}
	return *c.Work
}

// whileHeld runs do while the task's row is held by another, and lets it go d after do got stuck.
func (k *kit) whileHeld(s tasks.Submission, d time.Duration, do func()) {
	k.Helper()
	release := k.Hold(s.TaskID)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	release(d + d/10)
	<-done
}
