package storetest

import (
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// wantFailed wants the task failed for good with this class.
func (k *kit) wantFailed(s tasks.Submission, class string) tasks.Task {
	k.Helper()
	t := k.read(s)
	if t.Status != tasks.StatusFailed || t.Failure == nil || t.Failure.Class != class || t.FinishedAt.IsZero() || t.Reply != nil {
		k.Fatalf("the task is %s with %+v, want it failed with %s", t.Status, t.Failure, class)
	}
	return t
}

var budgetTests = []test{
	{"I5_redelivery_never_refreshes_the_budget", func(k *kit) {
		s := k.submit()
		for n := 1; n <= s.MaxAttempts; n++ {
			w := k.take(s)
			if w.Attempts != n {
				k.Fatalf("attempt %d is counted as %d", n, w.Attempts)
			}
			// Whatever a second record or a second press of Send brings, it is the same budget.
			if out := k.submitAll(submission(func(n *tasks.Submission) { n.Key = s.Key }))[0]; out.TaskID != s.TaskID {
				k.Fatalf("repeat: %+v", out)
			}
			k.wantClaim(s, tasks.DecisionLeased, tasks.StatusRunning)
			k.settle(retry(w, 0), tasks.VerdictAccepted, tasks.StatusQueued)
		}
		for range 2 {
			k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
			if t := k.wantFailed(s, "overloaded"); t.Attempts != 3 || t.Failure.Attempt != 3 || len(k.ledger(s)) != 3 {
				k.Fatalf("task %+v", t)
			}
		}
	}},
	{"I5_spent_attempts_fail_at_once_even_before_due", func(k *kit) {
		s, w := k.started(func(s *tasks.Submission) { s.MaxAttempts = 1 })
		k.settle(retry(w, parkMax/2), tasks.VerdictAccepted, tasks.StatusQueued)
		k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
		k.wantFailed(s, "overloaded")
	}},
	{"I5_crashes_spend_the_attempts", func(k *kit) {
		s := k.submit(func(s *tasks.Submission) { s.MaxAttempts, s.MaxInterruptions = 2, 10 })
		for range 2 {
			k.take(s)
			k.Advance(lease + time.Minute)
		}
		k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
		if t := k.wantFailed(s, tasks.ClassAttempts); t.Attempts != 2 || len(k.ledger(s)) != 2 {
			k.Fatalf("task %+v", t)
		}
	}},
	{"I5_a_crash_loop_ends_by_interruptions", func(k *kit) {
		s := k.submit(func(s *tasks.Submission) { s.MaxAttempts, s.MaxInterruptions = 100, 2 })
		for n := range 3 {
			if w := k.take(s); w.Interruptions != n || w.Attempts != n+1 {
				k.Fatalf("claim %d: %+v", n+1, w)
			}
			k.Advance(lease + time.Minute)
		}
		k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
		if t := k.wantFailed(s, tasks.ClassInterrupted); t.Attempts != 3 {
			k.Fatalf("task %+v", t)
		}
	}},
	{"no_interruption_is_allowed_when_none_is_budgeted", func(k *kit) {
		s, w := k.started(func(s *tasks.Submission) { s.MaxInterruptions = 0 })
		k.settle(retry(w, 0), tasks.VerdictAccepted, tasks.StatusQueued)
		k.take(s) // an ended attempt is no interruption
		k.Advance(lease + time.Minute)
		k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
		k.wantFailed(s, tasks.ClassInterrupted)
	}},
	{"deadline_passed_while_queued", func(k *kit) {
		s := k.submit(func(s *tasks.Submission) { s.DeadlineAfter = time.Hour })
		k.Advance(time.Hour + time.Minute)
		k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
		if t := k.wantFailed(s, tasks.ClassDeadline); t.Attempts != 0 || t.Version != 0 {
			k.Fatalf("task %+v", t)
		}
	}},
	{"deadline_passed_under_a_live_lease", func(k *kit) {
		s, w := k.started(func(s *tasks.Submission) { s.DeadlineAfter = lease / 2 })
		k.Advance(lease/2 + time.Minute)
		k.wantClaim(s, tasks.DecisionLeased, tasks.StatusRunning)
		done := complete(w, "too late")
		k.settle(done, tasks.VerdictDeadline, tasks.StatusFailed)
		k.wantFailed(s, tasks.ClassDeadline)
		if a := k.ledger(s); a[0].Outcome != tasks.AttemptNotAccepted || a[0].EndedAt.IsZero() || *a[0].PicoUSD != 13 {
			k.Fatalf("ledger %+v", a)
		}
		if out := k.settleAll(done)[0]; out.Verdict == tasks.VerdictAccepted || !out.Ended() {
			k.Fatalf("the repeat of a refused reply: %+v", out)
		}
		if r := k.replies(s); len(r) != 0 {
			k.Fatalf("replies %q", r)
		}
	}},
	{"deadline_passed_after_a_crash", func(k *kit) {
		s, _ := k.started(func(s *tasks.Submission) { s.DeadlineAfter = lease / 2 })
		k.Advance(lease + time.Minute)
		k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
		k.wantFailed(s, tasks.ClassDeadline)
	}},
	{"a_released_attempt_is_given_back", func(k *kit) {
		s := k.submit(func(s *tasks.Submission) { s.MaxAttempts = 1 })
		for version := int64(1); version <= 3; version++ {
			w := k.take(s)
			if w.Version != version || w.Attempts != 1 || w.Interruptions != 0 {
				k.Fatalf("work %+v", w)
			}
			for range 2 { // and a repeat gives nothing back
				k.settle(release(w), tasks.VerdictAccepted, tasks.StatusQueued)
			}
			if t := k.read(s); t.Attempts != 0 || t.Version != version || len(k.ledger(s)) != 0 {
				k.Fatalf("task %+v, ledger %+v", t, k.ledger(s))
			}
			if k.renew(w.Assignment) {
				k.Fatalf("a released assignment was renewed")
			}
		}
		w := k.take(s)
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "reply")
	}},
}
