package storetest

import (
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// wantCost wants the task's cost: pico is nil for unknown.
func (k *kit) wantCost(s tasks.Submission, pico *int64, input, output int64, unknown int) {
	k.Helper()
	c := k.read(s).Cost
	if (c.PicoUSD == nil) != (pico == nil) || (pico != nil && *c.PicoUSD != *pico) ||
		c.InputTokens != input || c.OutputTokens != output || c.UnknownAttempts != unknown {
		amount := "unknown"
		if c.PicoUSD != nil {
			amount = time.Duration(*c.PicoUSD).String() // reads well enough: picodollars as nanoseconds
		}
		k.Fatalf("cost %+v (amount %s)", c, amount)
	}
}

var ledgerTests = []test{
	{"I7_late_usage_is_recorded_on_every_refusal", func(k *kit) {
		for name, lose := range map[string]func(s tasks.Submission){
			"expired":    func(tasks.Submission) { k.Advance(lease + time.Minute) },
			"taken over": func(s tasks.Submission) { k.Advance(lease + time.Minute); k.take(s) },
			"cancelled":  func(s tasks.Submission) { k.cancel(s, true, tasks.StatusCancelled) },
			"succeeded": func(s tasks.Submission) {
				k.Advance(lease + time.Minute)
				k.settle(complete(k.take(s), "successor"), tasks.VerdictAccepted, tasks.StatusCompleted)
			},
		} {
			s, w := k.started()
			lose(s)
			late, again := complete(w, "late"), complete(w, "late again")
			again.Call = tasks.Call{WireRequests: 2, PicoUSD: ptr[int64](99)} // what has ended stays as it is
			for _, item := range []tasks.Settlement{late, again} {
				if out := k.settleAll(item)[0]; out.Verdict == tasks.VerdictAccepted {
					k.Fatalf("%s: %+v", name, out)
				}
			}
			a := k.ledger(s)[0]
			if a.Outcome != tasks.AttemptNotAccepted || a.EndedAt.IsZero() || a.WireRequests != 1 || a.ProviderRequestID != "req" ||
				a.Model != "model-2026" || a.InputTokens == nil || *a.InputTokens != 7 || *a.OutputTokens != 11 || *a.PicoUSD != 13 {
				k.Fatalf("%s: ledger %+v", name, a)
			}
		}
	}},
	{"I7_a_cost_is_the_sum_of_all_attempts", func(k *kit) {
		s := k.submit()
		k.wantCost(s, ptr[int64](0), 0, 0, 0)
		first := k.take(s)
		k.wantCost(s, nil, 0, 0, 1) // it runs: nobody knows
		k.Advance(lease + time.Minute)
		second := k.take(s)
		k.wantCost(s, nil, 0, 0, 2)
		k.settle(complete(second, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantCost(s, nil, 7, 11, 1) // the crashed one may have been charged
		k.settle(complete(first, "late"), tasks.VerdictTerminal, tasks.StatusCompleted)
		k.wantCost(s, ptr[int64](26), 14, 22, 0)
	}},
	{"I7_unknown_is_not_zero", func(k *kit) {
		s, w := k.started()
		lost := retry(w, 0)
		lost.Failure.Class, lost.Call = "ambiguous", tasks.Call{WireRequests: 1}
		k.settle(lost, tasks.VerdictAccepted, tasks.StatusQueued)
		k.wantCost(s, nil, 0, 0, 1)
		if a := k.ledger(s)[0]; a.InputTokens != nil || a.OutputTokens != nil || a.PicoUSD != nil || a.WireRequests != 1 || a.Model != "model" {
			k.Fatalf("ledger %+v", a)
		}
		k.settle(complete(k.take(s), "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantCost(s, nil, 7, 11, 1)
	}},
	{"I7_usage_without_a_price", func(k *kit) {
		s, w := k.started()
		done := complete(w, "reply")
		done.Call.PicoUSD = nil
		k.settle(done, tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantCost(s, nil, 7, 11, 0)
	}},
	{"I7_nothing_on_the_wire_costs_nothing", func(k *kit) {
		s, w := k.started()
		unsent := retry(w, 0)
		unsent.Failure.Class, unsent.Call = "not_sent", tasks.Call{}
		k.settle(unsent, tasks.VerdictAccepted, tasks.StatusQueued)
		k.wantCost(s, ptr[int64](0), 0, 0, 0)
		k.settle(complete(k.take(s), "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantCost(s, ptr[int64](13), 7, 11, 0)
	}},
	{"I7_a_refused_failure_is_recorded_too", func(k *kit) {
		s, w := k.started()
		k.cancel(s, true, tasks.StatusCancelled)
		late := fail(w)
		late.Call = call()
		k.settle(late, tasks.VerdictCancelled, tasks.StatusCancelled)
		if a := k.ledger(s)[0]; a.Outcome != tasks.AttemptNotAccepted || a.FailureClass != "permanent" || *a.PicoUSD != 13 {
			k.Fatalf("ledger %+v", a)
		}
		k.wantCost(s, ptr[int64](13), 7, 11, 0)
	}},
	{"attempts_of_an_unknown_task", func(k *kit) {
		_, err := k.Store.Attempts(k.ctx, workspace, newID())
		k.wantError(err, tasks.ErrNotFound)
	}},
}
