package storetest

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

var raceTests = []test{
	{"I1_one_settle_of_64_at_once_is_accepted", func(k *kit) {
		s, w := k.started()
		var accepted atomic.Int64
		together(64, func(int) {
			out, err := k.Store.Settle(k.ctx, []tasks.Settlement{complete(w, "reply")})
			switch {
			case err != nil:
				k.Errorf("settle: %v", err)
			case out[0].Verdict == tasks.VerdictAccepted:
				accepted.Add(1)
			case out[0].Verdict != tasks.VerdictTerminal:
				k.Errorf("settle: %+v", out[0])
			}
		})
		if accepted.Load() != 1 {
			k.Fatalf("%d different replies were accepted", accepted.Load())
		}
		k.wantReply(s, "reply")
	}},
	{"batches_in_opposite_order_do_not_deadlock", func(k *kit) {
		const n, rounds = 40, 8
		ctx, stop := context.WithTimeoutCause(k.ctx, 2*time.Minute, context.DeadlineExceeded)
		defer stop()
		var items []tasks.Submission
		for range n {
			items = append(items, submission(func(s *tasks.Submission) { s.MaxAttempts, s.MaxInterruptions = 100, 100 }))
		}
		k.submitAll(items...)
		for range rounds {
			claims := k.claimAll(claimer(), refs(items)...)
			var held []tasks.Assignment
			var retries []tasks.Settlement
			for i, c := range claims {
				if c.Work == nil {
					k.Fatalf("claim of item %d: %+v", i, c)
				}
				held, retries = append(held, c.Work.Assignment), append(retries, retry(*c.Work, 0))
			}
			together(6, func(i int) {
				held, retries, refs := slices.Clone(held), slices.Clone(retries), refs(items)
				if i%2 == 1 {
					slices.Reverse(held)
					slices.Reverse(retries)
					slices.Reverse(refs)
				}
				var err error
				switch i / 2 {
				case 0:
					_, err = k.Store.Renew(ctx, lease, held)
				case 1:
					_, err = k.Store.Settle(ctx, retries)
				case 2:
					_, err = k.Store.Claim(ctx, claimer(), refs)
				}
				if err != nil {
					k.Errorf("call %d: %v", i, err)
				}
			})
			k.Advance(lease + time.Minute)
		}
	}},
	{"I1_claim_and_settle_storm", func(k *kit) {
		// Many workers with a lease that is over before they settle, on few tasks: whatever happens, one reply each.
		const workers, rounds = 8, 12
		var items []tasks.Submission
		for range 4 {
			items = append(items, k.submit(func(s *tasks.Submission) { s.MaxAttempts, s.MaxInterruptions = 1000, 1000 }))
		}
		accepted := make(map[uuid.UUID]*atomic.Int64)
		for _, s := range items {
			accepted[s.TaskID] = new(atomic.Int64)
		}
		together(workers, func(int) {
			for round := range rounds {
				by := claimer()
				if round < rounds-rounds/4 {
					by.Lease = time.Millisecond
				}
				claims, err := k.Store.Claim(k.ctx, by, refs(items))
				if err != nil {
					k.Errorf("claim: %v", err)
					return
				}
				var settles []tasks.Settlement
				for _, c := range claims {
					if c.Work != nil {
						settles = append(settles, complete(*c.Work, "reply"))
					}
				}
				out, err := k.Store.Settle(k.ctx, settles)
				if err != nil {
					k.Errorf("settle: %v", err)
					return
				}
				for j, s := range out {
					if s.Verdict == tasks.VerdictAccepted {
						accepted[settles[j].TaskID].Add(1)
					}
				}
			}
		})
		for _, s := range items {
			t := k.read(s)
			if n := accepted[s.TaskID].Load(); n > 1 || (n == 1) != (t.Status == tasks.StatusCompleted) || len(k.replies(s)) != int(n) {
				k.Errorf("%d replies accepted, %d shown, of the task %+v", n, len(k.replies(s)), t)
			}
			a := k.ledger(s)
			if int64(t.Attempts) != t.Version || len(a) != t.Attempts {
				k.Errorf("%d attempts in the ledger of %+v", len(a), t)
			}
		}
	}},
}
