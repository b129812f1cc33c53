package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

func (k *kit) cap(workspace string, perDay int64) {
	k.Helper()
	if err := k.store.SetBudget(context.Background(), workspace, &perDay); err != nil {
		k.Fatal(err)
	}
}

func reserving(workspace string, amount int64) tasks.Submission {
	s := submission("c")
	s.Workspace, s.Reserve = workspace, &amount
	return s
}

// heldAccount locks the account of a workspace's day from outside, as an operator's forgotten transaction would.
func (k *kit) heldAccount(workspace string) (release func()) {
	k.Helper()
	if out, err := k.store.Submit(context.Background(), []tasks.Submission{reserving(workspace, 1)}); err != nil || out[0].Err != nil {
		k.Fatal(out, err)
	}
	conn := k.connect()
	k.exec(conn, `begin`)
	k.exec(conn, `select from budget_days where workspace = $1 for update`, workspace)
	return func() { k.Helper(); k.exec(conn, `commit`) }
}

// TestAHeldAccountCostsOnlyItsOwnWorkspaces: submissions of others in the batch are stored, and these may be repeated.
func TestAHeldAccountCostsOnlyItsOwnWorkspaces(t *testing.T) {
	k := newKit(t)
	k.cap("w", 100)
	release := k.heldAccount("w")
	items := []tasks.Submission{reserving("w", 1), reserving("free", 1), reserving("w", 2)}
	out, err := k.store.Submit(t.Context(), items)
	if err != nil || out[1].Err != nil {
		t.Fatal(out, err)
	}
	for _, i := range []int{0, 2} {
		if !errors.Is(out[i].Err, tasks.ErrUnavailable) {
			t.Errorf("item %d: %+v, want %v", i, out[i], tasks.ErrUnavailable)
		}
	}
	release()
	if out, err = k.store.Submit(t.Context(), items); err != nil || out[0].Err != nil || out[2].Err != nil || out[1].TaskID != items[1].TaskID {
		t.Errorf("again: %+v, %v", out, err)
	}
}

// TestAHeldAccountHoldsUpNoWork: claims, settles and cancels of tasks that have a part in it go on.
func TestAHeldAccountHoldsUpNoWork(t *testing.T) {
	k := newKit(t)
	k.cap("w", 100)
	items := []tasks.Submission{reserving("w", 20), reserving("w", 20), reserving("w", 20)}
	if _, err := k.store.Submit(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	release := k.heldAccount("w")
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a wait for the account would be as long as the test
	defer cancel()
	claimed, err := k.store.Claim(ctx, claimer(time.Hour), []tasks.Ref{{TaskID: items[0].TaskID, Workspace: "w"}, {TaskID: items[1].TaskID, Workspace: "w"}})
	if err != nil || claimed[0].Work == nil || claimed[1].Work == nil {
		t.Fatal(claimed, err)
	}
	done := complete(*claimed[0].Work, "reply")
	cost := int64(13)
	done.Call.PicoUSD = &cost
	if settled, err := k.store.Settle(ctx, []tasks.Settlement{done}); err != nil || settled[0].Verdict != tasks.VerdictAccepted {
		t.Fatal(settled, err)
	}
	if _, cancelled, err := k.store.Cancel(ctx, "w", items[1].TaskID); err != nil || !cancelled {
		t.Fatal(cancelled, err)
	}
	b, err := k.store.Budgets(ctx)
	if err != nil || len(b) != 1 || b[0].Spent != 13+20 || b[0].Reserved != 20+1 {
		t.Errorf("%+v, %v; want what was spent and what was presumed", b, err)
	}
}

// TestI7_BudgetsAddUpUnderTraffic submits, claims with leases that run out, settles in time and late and cancels, all at
// once. At the end the account is what the ledger comes to.
func TestI7_BudgetsAddUpUnderTraffic(t *testing.T) {
	k := newKit(t)
	const reserve, limit, workers, rounds = 20, 1_000, 6, 40
	k.cap("w", limit)
	ctx := t.Context()
	var mu sync.Mutex
	var open []tasks.Ref
	some := func(r *rand.Rand) []tasks.Ref {
		mu.Lock()
		defer mu.Unlock()
		var out []tasks.Ref
		for _, at := range r.Perm(len(open))[:min(5, len(open))] {
			out = append(out, open[at])
		}
		return out
	}
	var group sync.WaitGroup
	for n := range workers {
		group.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			var late []tasks.Settlement
			for range rounds {
				items := []tasks.Submission{reserving("w", reserve), reserving("w", reserve)}
				out, err := k.store.Submit(ctx, items)
				if err != nil {
					t.Error(err)
					return
				}
				for i, o := range out {
					if o.Err == nil {
						mu.Lock()
						open = append(open, tasks.Ref{TaskID: items[i].TaskID, Workspace: "w"})
						mu.Unlock()
					} else if !errors.Is(o.Err, tasks.ErrBudget) {
						t.Error(o.Err)
					}
				}
				lease := time.Duration(r.IntN(2)) * time.Minute // or one that is over at once
				claimed, err := k.store.Claim(ctx, claimer(lease+time.Microsecond), some(r))
				if err != nil {
					t.Error(err)
					return
				}
				now := late
				late = nil
				for _, c := range claimed {
					if c.Work == nil {
						continue
					}
					s := complete(*c.Work, "reply")
					if cost := int64(r.IntN(2 * reserve)); cost%3 > 0 {
						s.Call.PicoUSD = &cost
					}
					switch r.IntN(6) {
					case 0:
						s.Outcome = tasks.OutcomeRetry
					case 1:
						s.Outcome = tasks.OutcomeRelease
					case 2:
						s.Outcome, s.Call.WireRequests = tasks.OutcomeFail, 0
					case 3:
						late = append(late, s)
						continue
					case 4:
						continue // its worker dies
					}
					now = append(now, s)
				}
				if _, err := k.store.Settle(ctx, now); err != nil {
					t.Error(err)
					return
				}
				if refs := some(r); len(refs) > 0 && r.IntN(4) == 0 {
					if _, _, err := k.store.Cancel(ctx, "w", refs[0].TaskID); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	var spent, reserved int64
	err := k.admin.QueryRow(ctx, `select coalesce(sum(case when a.ended_at is null then coalesce(a.presumed_picousd, 0)
			when a.picousd is null and a.wire_requests > 0 then t.reserved_picousd else coalesce(a.picousd, 0) end), 0)::bigint,
			(select coalesce(sum(reserved_picousd), 0) from reply_tasks where finished_at is null)::bigint
		from attempts a join reply_tasks t on t.id = a.task_id`).Scan(&spent, &reserved)
	if err != nil {
		t.Fatal(err)
	}
	b, err := k.store.Budgets(ctx)
	if err != nil || len(b) != 1 || b[0].Spent != spent || b[0].Reserved != reserved {
		t.Errorf("%+v, %v; the ledger comes to %d, and %d are reserved by tasks", b, err, spent, reserved)
	}
	var presumed int
	if err := k.admin.QueryRow(ctx, `select count(*) from attempts where presumed_picousd is not null`).Scan(&presumed); err != nil || presumed == 0 {
		t.Errorf("%d attempts were presumed, %v; the traffic shows nothing", presumed, err)
	}
}

func TestSweepBudgets(t *testing.T) {
	k := newKit(t)
	k.cap("w", 100)
	if out, err := k.store.Submit(t.Context(), []tasks.Submission{reserving("w", 1)}); err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	k.exec(k.admin, `insert into budget_days (workspace, day) select 'w', (now() at time zone 'utc')::date - n from generate_series(1, 10) n`)
	k.exec(k.admin, `insert into budget_changes select 'w', (now() at time zone 'utc')::date - n, 1, 1 from generate_series(0, 10) n`)
	const week = 7 * 24 * time.Hour // keeps seven whole days beside today
	for _, step := range []struct{ limit, swept int }{{1, 2}, {10, 4}, {10, 0}} {
		if n, err := k.store.SweepBudgets(t.Context(), week, step.limit); err != nil || n != step.swept {
			t.Errorf("swept %d, %v; want %d", n, err, step.swept)
		}
	}
	if days, changes := count(t, k.store.pool, `select count(*) from budget_days`), count(t, k.store.pool, `select count(*) from budget_changes`); days != 8 || changes != 8 {
		t.Errorf("%d days and %d changes are left, want 8 and 8", days, changes)
	}
}
