package storetest

import (
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

var claimTests = []test{
	{"I5_claim_counts_the_attempt_before_the_call", func(k *kit) {
		s := k.submit()
		k.Advance(time.Minute)
		w := k.take(s)
		if w.Version != 1 || w.Budget != (tasks.Budget{Attempts: 1, MaxAttempts: 3, MaxInterruptions: 3}) ||
			w.Conversation != "c" || w.MessageID != s.MessageID {
			k.Fatalf("work %+v", w)
		}
		k.within("remaining time", w.Remaining, deadline-time.Minute)
		if w.Queued < time.Minute || w.Queued > 10*time.Minute {
			k.Fatalf("queued for %s", w.Queued)
		}
		t := k.read(s)
		if t.Status != tasks.StatusRunning || t.Budget != w.Budget || t.Version != 1 || t.Worker != "worker" || t.LeaseUntil.IsZero() {
			k.Fatalf("task %+v", t)
		}
		a := k.ledger(s)
		if len(a) != 1 || a[0].Number != 1 || a[0].Version != 1 || a[0].Worker != "worker" || a[0].Provider != "provider" ||
			a[0].Model != "model" || a[0].StartedAt.IsZero() || !a[0].EndedAt.IsZero() || a[0].Outcome != tasks.AttemptUnknown ||
			a[0].InputTokens != nil || a[0].OutputTokens != nil || a[0].PicoUSD != nil ||
			a[0].CachedInputTokens != nil || a[0].ReasoningTokens != nil || a[0].PriceVersion != "" {
			k.Fatalf("ledger %+v", a)
		}
	}},
	{"a_leased_task_is_not_claimed", func(k *kit) {
		s, w := k.started()
		k.Advance(20 * time.Minute)
		c := k.wantClaim(s, tasks.DecisionLeased, tasks.StatusRunning)
		k.within("wait", c.Wait, lease-20*time.Minute)
		if t := k.read(s); t.Version != 1 || t.Attempts != 1 {
			k.Fatalf("a refused claim changed the task: %+v", t)
		}
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
	}},
	{"I4_takeover_of_an_expired_lease", func(k *kit) {
		s, first := k.started()
		k.Advance(lease + time.Minute)
		by := claimer()
		by.Worker = "successor"
		c := k.claimAll(by, ref(s))[0]
		if c.Decision != tasks.DecisionClaimed || c.Work.Version != first.Version+1 ||
			c.Work.Budget != (tasks.Budget{Attempts: 2, MaxAttempts: 3, Interruptions: 1, MaxInterruptions: 3}) {
			k.Fatalf("takeover %+v, work %+v", c, c.Work)
		}
		if t := k.read(s); t.Budget != c.Work.Budget || t.Worker != "successor" || t.Status != tasks.StatusRunning {
			k.Fatalf("task %+v", t)
		}
		a := k.ledger(s)
		if len(a) != 2 || a[0].Version != 1 || a[0].Outcome != tasks.AttemptUnknown || !a[0].EndedAt.IsZero() ||
			a[1].Version != 2 || a[1].Number != 2 || a[1].Worker != "successor" {
			k.Fatalf("ledger %+v", a)
		}
		k.wantClaim(s, tasks.DecisionLeased, tasks.StatusRunning)
	}},
	{"I1_64_claims_at_once_have_one_winner", func(k *kit) {
		for _, stage := range []string{"queued", "expired"} {
			s := k.submit()
			before := int64(0)
			if stage == "expired" {
				before = k.take(s).Version
				k.Advance(lease + time.Minute)
			}
			var won atomic.Int64
			together(64, func(int) {
				out, err := k.Store.Claim(k.ctx, claimer(), []tasks.Ref{ref(s)})
				switch {
				case err != nil:
					k.Errorf("claim: %v", err)
				case out[0].Decision == tasks.DecisionClaimed:
					won.Add(1)
				case out[0].Decision != tasks.DecisionLeased:
					k.Errorf("claim: %+v", out[0])
				}
			})
			t := k.read(s)
			if won.Load() != 1 || t.Version != before+1 || t.Attempts != int(before)+1 || t.Interruptions != int(before) || len(k.ledger(s)) != t.Attempts {
				k.Fatalf("%s: %d winners, task %+v", stage, won.Load(), t)
			}
		}
	}},
	{"one_task_twice_in_a_batch", func(k *kit) {
		s, other := k.submit(), k.submit()
		out := k.claimAll(claimer(), ref(s), ref(other), ref(s), ref(s))
		if out[0].Decision != tasks.DecisionClaimed || out[1].Decision != tasks.DecisionClaimed {
			k.Fatalf("%+v", out)
		}
		for _, c := range out[2:] {
			if c.Decision != tasks.DecisionLeased || c.Status != tasks.StatusRunning {
				k.Fatalf("the second of one task: %+v", c)
			}
			k.within("wait", c.Wait, lease)
		}
		if t := k.read(s); t.Attempts != 1 || t.Version != 1 {
			k.Fatalf("task %+v", t)
		}
	}},
	{"one_batch_of_everything", func(k *kit) {
		queued, running, completed, expired := k.submit(), k.submit(), k.submit(), k.submit()
		k.take(expired)
		k.Advance(lease + time.Minute)
		k.take(running)
		k.settle(complete(k.take(completed), "x"), tasks.VerdictAccepted, tasks.StatusCompleted)
		unknown := submission()
		want := []tasks.Decision{
			tasks.DecisionMissing, tasks.DecisionClaimed, tasks.DecisionFinished, tasks.DecisionLeased, tasks.DecisionClaimed, tasks.DecisionFinished,
		}
		for i, c := range k.claimAll(claimer(), refs([]tasks.Submission{unknown, expired, completed, running, queued, completed})...) {
			if c.Decision != want[i] {
				k.Errorf("item %d: %s, want %s", i, c.Decision, want[i])
			}
		}
		k.claimAll(claimer())
	}},
	{"a_retry_may_be_claimed_when_it_is_due", func(k *kit) {
		s, w := k.started()
		k.settle(retry(w, 30*time.Minute), tasks.VerdictAccepted, tasks.StatusQueued)
		c := k.wantClaim(s, tasks.DecisionNotDue, tasks.StatusQueued)
		k.within("wait", c.Wait, 30*time.Minute)
		k.Advance(29*time.Minute - 30*time.Second)
		k.wantClaim(s, tasks.DecisionNotDue, tasks.StatusQueued)
		if t := k.read(s); t.Attempts != 1 || t.Version != 1 {
			k.Fatalf("a claim that was not due changed the task: %+v", t)
		}
		k.Advance(2 * time.Minute)
		if w := k.take(s); w.Version != 2 || w.Attempts != 2 || w.Interruptions != 0 || w.Queued > 5*time.Minute {
			k.Fatalf("work %+v", w)
		}
		if d := k.Delayed(); len(d) != 0 {
			k.Fatalf("delayed handoffs that nobody asked for: %v", d)
		}
	}},
	{"a_claim_long_before_it_is_due_hands_off", func(k *kit) {
		s, w := k.started()
		k.settle(retry(w, parkMax+30*time.Minute), tasks.VerdictAccepted, tasks.StatusQueued)
		for range 2 {
			if c := k.claimAll(claimer(), ref(s), ref(s)); c[0].Decision != tasks.DecisionHandedOff || c[1].Decision != tasks.DecisionHandedOff ||
				c[0].Status != tasks.StatusQueued {
				k.Fatalf("claims %+v", c)
			}
		}
		d := k.Delayed()
		if len(d) != 1 {
			k.Fatalf("delayed handoffs %v", d)
		}
		k.within("delay", d[s.TaskID], parkMax+30*time.Minute)
		k.Advance(31 * time.Minute)
		k.wantClaim(s, tasks.DecisionNotDue, tasks.StatusQueued)
		k.Advance(parkMax)
		k.take(s)
	}},
}
