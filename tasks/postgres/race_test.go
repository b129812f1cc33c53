package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/tasks"
)

// Mutants of the judged statements: how they must not be written. The tests below accept the store's own form and see
// through these, so that they are known to be able to fail.
var mutants = []struct {
	name   string
	mutate func(sql string) string
}{
	{"the store's own", func(sql string) string { return sql }},
	{"now() is the start of the transaction", func(sql string) string {
		return strings.ReplaceAll(sql, "clock_timestamp()", "now()")
	}},
	{"the clock is read when the first row is locked", func(sql string) string {
		return strings.ReplaceAll(sql, " from (select count(*) from locked) n", "")
	}},
}

// TestI4_AfterTheLockThenTheClock settles and renews two tasks while somebody holds the row of the one with the greater id
// until its lease is over. It is locked last, so that a clock read at any earlier moment says the lease is good.
func TestI4_AfterTheLockThenTheClock(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			k := newKit(t)
			const lease = time.Second
			late := func(sql string, args func(works []tasks.Work) []any) (refused bool) {
				t.Helper()
				refs := k.submit(2)
				slices.SortFunc(refs, func(a, b tasks.Ref) int { return bytes.Compare(a.TaskID[:], b.TaskID[:]) })
				works := []tasks.Work{k.claim(time.Hour, refs[0])[0], k.claim(lease, refs[1])[0]}
				release := k.hold(refs[1].TaskID)
				var g errgroup.Group
				g.Go(func() error {
					rows, err := k.store.pool.Query(context.Background(), m.mutate(sql), args(works)...)
					if err != nil {
						return err
					}
					answers, err := pgx.CollectRows(rows, pgx.RowToMap)
					for _, a := range answers {
						refused = refused || a["good"] == false || a["verdict"] == "lease_expired"
					}
					return err
				})
				release(lease + lease/10)
				if err := g.Wait(); err != nil {
					t.Fatal(err)
				}
				return refused
			}
			settle := late(settleHeldSQL, func(works []tasks.Work) []any {
				return settleArgs([]tasks.Settlement{complete(works[0], "first"), complete(works[1], "late")}, indexes(2))
			})
			renew := late(renewHeldSQL, func(works []tasks.Work) []any {
				id := func(w *tasks.Work) uuid.UUID { return w.TaskID }
				return []any{
					uuids(works, indexes(2), id), textArray{"w", "w"}, []int64{works[0].Version, works[1].Version},
					time.Hour.Microseconds(),
				}
			})
			own := m.name == mutants[0].name
			if settle != own || renew != own {
				t.Errorf("late settle refused: %t, late renewal refused: %t; want %t", settle, renew, own)
			}
		})
	}
}

// TestNoDeadlock runs the waiting form of the statements, which takes all its locks, on two connections in opposite order.
// It is raw: the store would repeat what the server undid, and hide it.
func TestNoDeadlock(t *testing.T) {
	k := newKit(t)
	const n, rounds = 50, 150
	refs := k.submit(n)
	works := k.claim(time.Hour, refs...)
	backwards := slices.Clone(works)
	slices.Reverse(backwards)
	id := func(w *tasks.Work) uuid.UUID { return w.TaskID }
	workspace := func(w *tasks.Work) string { return w.Workspace }
	var g errgroup.Group
	for _, works := range [][]tasks.Work{works, backwards} {
		all := indexes(n)
		conn := k.connect()
		g.Go(func() error {
			for range rounds {
				for _, s := range []struct {
					sql  string
					args []any
				}{
					{renewHeldSQL, []any{uuids(works, all, id), texts(works, all, workspace),
						column(works, all, func(w *tasks.Work) int64 { return w.Version }), time.Hour.Microseconds()}},
					{claimLockSQL, []any{uuids(works, all, id), texts(works, all, workspace)}},
					{noteHeldSQL, []any{uuids(works, all, id), texts(works, all, workspace),
						column(works, all, func(w *tasks.Work) int64 { return w.Version }), texts(works, all, workspace), make([][]byte, n)}},
				} {
					if _, err := conn.Exec(context.Background(), s.sql, s.args...); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestI3_LostAcknowledgement makes sure that an acknowledgement is really lost where the conformance suite loses one.
func TestI3_LostAcknowledgement(t *testing.T) {
	k := newKit(t)
	ctx := t.Context()
	item := submission("c")
	ref := tasks.Ref{TaskID: item.TaskID, Workspace: item.Workspace}
	w := k.claim(time.Hour, k.submit(1)...)[0]
	for n, op := range []struct {
		name string
		run  func() error
		done string
	}{
		{"submit", func() error { _, err := k.store.Submit(ctx, []tasks.Submission{item}); return err },
			`select count(*) from reply_tasks where id = '` + item.TaskID.String() + `'`},
		{"claim", func() error { _, err := k.store.Claim(ctx, claimer(time.Hour), []tasks.Ref{ref}); return err },
			`select count(*) from attempts where task_id = '` + item.TaskID.String() + `'`},
		{"settle", func() error { _, err := k.store.Settle(ctx, []tasks.Settlement{complete(w, "x")}); return err },
			`select count(*) from replies`},
	} {
		k.proxy.loseAck()
		if err := op.run(); !errors.Is(err, tasks.ErrUnavailable) {
			t.Errorf("%s: %v, want %v", op.name, err, tasks.ErrUnavailable)
		}
		if lost := int(k.proxy.lost.Load()); lost != n+1 || count(t, k.store.pool, op.done) != 1 {
			t.Errorf("%s: %d acknowledgements lost, want %d, and what was asked for has to be done", op.name, lost, n+1)
		}
	}
	again, err := k.store.Submit(ctx, []tasks.Submission{item})
	if err != nil || again[0].Replayed || again[0].TaskID != item.TaskID || again[0].AcceptedAt.IsZero() {
		t.Errorf("the same submission again: %+v, %v; want it recognised as stored by itself", again, err)
	}
}

// TestHeldRowHoldsUpItsOwnTaskOnly leaves a row locked, as an operator's forgotten transaction does.
func TestHeldRowHoldsUpItsOwnTaskOnly(t *testing.T) {
	k := newKit(t)
	ctx := t.Context()
	refs := k.submit(3)
	works := k.claim(time.Hour, refs[:2]...)
	release := k.hold(refs[0].TaskID)
	renewed, err := k.store.Renew(ctx, time.Hour, []tasks.Assignment{works[0].Assignment, works[1].Assignment})
	if err != nil || !slices.Equal(renewed, []tasks.Renewal{tasks.RenewalHeld, tasks.RenewalKept}) {
		t.Errorf("renew: %v, %v; want nothing said of the held one", renewed, err)
	}
	claims, err := k.store.Claim(ctx, claimer(time.Hour), []tasks.Ref{refs[0], refs[2]})
	if err != nil || claims[0].Decision != tasks.DecisionLeased || claims[0].Wait <= 0 || claims[1].Decision != tasks.DecisionClaimed {
		t.Errorf("claim: %+v, %v", claims, err)
	}
	var settled []tasks.Settled
	var g errgroup.Group
	g.Go(func() (err error) {
		settled, err = k.store.Settle(ctx, []tasks.Settlement{complete(works[0], "held"), complete(works[1], "free")})
		return err
	})
	for count(t, k.store.pool, `select count(*) from replies`) == 0 { // until the test's own time is over
		time.Sleep(time.Millisecond)
	}
	release(0)
	if err := g.Wait(); err != nil || settled[0].Verdict != tasks.VerdictAccepted || settled[1].Verdict != tasks.VerdictAccepted {
		t.Errorf("settle: %+v, %v", settled, err)
	}
	works = k.claim(time.Hour, k.submit(2)...)
	release = k.hold(works[0].TaskID)
	g.Go(func() error { release(settleLockWait + time.Second/2); return nil })
	settled, err = k.store.Settle(ctx, []tasks.Settlement{complete(works[0], "held"), complete(works[1], "free")})
	if err != nil || settled[0].Verdict != tasks.VerdictHeld || settled[1].Verdict != tasks.VerdictAccepted {
		t.Errorf("settle beside a lock that stays: %+v, %v", settled, err)
	}
	settled, err = k.store.Settle(ctx, []tasks.Settlement{complete(works[0], "held")})
	if err != nil || settled[0].Verdict != tasks.VerdictAccepted {
		t.Errorf("settle again: %+v, %v", settled, err)
	}
	_ = g.Wait()
}

// TestManyHeldRowsAreNotWaitedForOneAfterTheOther: a call that ended by its own time limit would have done what it does for
// the others, and not say so. Their attempts would be lost, and their leases given up.
func TestManyHeldRowsAreNotWaitedForOneAfterTheOther(t *testing.T) {
	k := newKit(t)
	queued, running := k.submit(9), k.submit(9)
	works := k.claim(time.Hour, running...)
	var held []uuid.UUID
	for i := range 8 {
		held = append(held, queued[i].TaskID, running[i].TaskID)
	}
	conn := k.connect()
	k.exec(conn, `begin`)
	k.exec(conn, `select from reply_tasks where id = any($1) for update`, held)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // eight waits of two seconds are more
	defer cancel()
	var g errgroup.Group
	g.Go(func() error {
		claims, err := k.store.Claim(ctx, claimer(time.Hour), queued)
		if err != nil || claims[0].Decision != tasks.DecisionLeased || claims[8].Decision != tasks.DecisionClaimed {
			t.Errorf("claim: %+v, %v", claims, err)
		}
		return nil
	})
	assignments := make([]tasks.Assignment, len(works))
	settlements := make([]tasks.Settlement, len(works))
	for i, w := range works {
		assignments[i], settlements[i] = w.Assignment, complete(w, "x")
	}
	renewed, err := k.store.Renew(ctx, time.Hour, assignments)
	if err != nil || renewed[0] != tasks.RenewalHeld || renewed[8] != tasks.RenewalKept {
		t.Errorf("renew: %v, %v", renewed, err)
	}
	settled, err := k.store.Settle(ctx, settlements)
	if err != nil || settled[0].Verdict != tasks.VerdictHeld || settled[8].Verdict != tasks.VerdictAccepted {
		t.Errorf("settle: %+v, %v", settled, err)
	}
	_ = g.Wait()
}

// TestI6_UncommittedKey submits beside a transaction that has bound a key and does not end.
func TestI6_UncommittedKey(t *testing.T) {
	k := newKit(t)
	items := []tasks.Submission{submission("c"), submission("c"), submission("c")}
	conn := k.connect()
	k.exec(conn, `begin`)
	k.exec(conn, `insert into submissions values ('w', 'message', $1, '\x00', $2, now(), now() + '1h')`, items[1].Key, uuid.New())
	out, err := k.store.Submit(t.Context(), items)
	if err != nil || out[0].Err != nil || out[2].Err != nil || !errors.Is(out[1].Err, tasks.ErrInProgress) {
		t.Fatalf("submit: %+v, %v; want only the second to be in progress", out, err)
	}
	k.exec(conn, `rollback`)
	out, err = k.store.Submit(t.Context(), items)
	if err != nil || out[1].Err != nil || out[1].Replayed || out[1].TaskID != items[1].TaskID {
		t.Fatalf("submit after the rollback: %+v, %v", out, err)
	}
	if n := count(t, k.store.pool, `select count(*) from reply_tasks`); n != 3 {
		t.Errorf("%d tasks, want 3", n)
	}
}

// TestRenewWithBusyPool takes every connection for work.
func TestRenewWithBusyPool(t *testing.T) {
	k := newKit(t)
	w := k.claim(time.Hour, k.submit(1)...)[0]
	for range k.store.pool.Config().MaxConns {
		conn, err := k.store.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	ok, err := k.store.Renew(t.Context(), time.Hour, []tasks.Assignment{w.Assignment})
	if err != nil || ok[0] != tasks.RenewalKept {
		t.Errorf("renew: %v, %v", ok, err)
	}
}

// I7: a cancel that has to wait for a claim to commit sees the attempt that the claim has begun, and charges and counts it,
// although nothing is heard of that any more.
func TestI7_CancelSeesTheAttemptOfTheClaimItWaitedFor(t *testing.T) {
	k := newKit(t)
	ctx := context.Background()
	cap, reserve := int64(1000), int64(70)
	if err := k.store.SetBudget(ctx, "w", &cap); err != nil {
		t.Fatal(err)
	}
	s := submission("c")
	s.Reserve = &reserve
	if out, err := k.store.Submit(ctx, []tasks.Submission{s}); err != nil || out[0].Err != nil {
		t.Fatal(err, out)
	}
	conn := k.connect()
	k.exec(conn, `begin`)
	refs := []tasks.Ref{{TaskID: s.TaskID, Workspace: "w"}}
	k.exec(conn, claimSQL, uuids(refs, indexes(1), func(r *tasks.Ref) uuid.UUID { return r.TaskID }), textArray{"w"},
		"worker", time.Hour.Microseconds(), time.Minute.Microseconds(), "sim", int64(0), false)
	var g errgroup.Group
	g.Go(func() error {
		task, cancelled, err := k.store.Cancel(ctx, "w", s.TaskID)
		if err == nil && (!cancelled || task.Attempts != 1) {
			err = fmt.Errorf("cancelled %t with %d attempts", cancelled, task.Attempts)
		}
		return err
	})
	k.blocked(1)
	k.exec(conn, `commit`)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	spent, err := k.store.Spend(ctx, tasks.SpendQuery{Workspace: "w", By: tasks.SpendByDay})
	if err != nil || spent.Total.Attempts != 1 || spent.Total.UnknownAttempts != 1 {
		t.Errorf("%+v, %v", spent.Total, err)
	}
	budgets, err := k.store.Budgets(ctx)
	if err != nil || len(budgets) != 1 || budgets[0].Spent != reserve || budgets[0].Reserved != 0 {
		t.Errorf("%+v, %v", budgets, err)
	}
}
