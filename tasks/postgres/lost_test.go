package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/tasks"
)

// ended is a retry after a call that the provider refused, so that it did not run.
func ended(w tasks.Work) tasks.Settlement {
	return tasks.Settlement{
		Assignment: w.Assignment, Outcome: tasks.OutcomeRetry, Failure: tasks.Failure{Class: "overloaded"}, Call: tasks.Call{WireRequests: 1},
	}
}

func (k *kit) submitStop() tasks.Ref {
	k.Helper()
	s := submission("c")
	s.OnAmbiguous = tasks.AmbiguousStop
	out, err := k.store.Submit(context.Background(), []tasks.Submission{s})
	if err != nil || out[0].Err != nil {
		k.Fatal(out, err)
	}
	return tasks.Ref{TaskID: s.TaskID, Workspace: s.Workspace}
}

// beginSettle settles in a transaction that stays open.
func (k *kit) beginSettle(s tasks.Settlement) *pgx.Conn {
	k.Helper()
	conn := k.connect()
	k.exec(conn, `begin`)
	k.exec(conn, settleHeldSQL, settleArgs([]tasks.Settlement{s}, indexes(1))...)
	return conn
}

// TestI7_AClaimReadsTheLedgerAsItIsUnderTheLock claims a task that says stop while its attempt is being settled as one that
// did not run. The claim's statement may have begun before: in its snapshot, nothing has been heard of the attempt.
func TestI7_AClaimReadsTheLedgerAsItIsUnderTheLock(t *testing.T) {
	k := newKit(t)
	ref := k.submitStop()
	conn := k.beginSettle(ended(k.claim(time.Hour, ref)[0]))
	var claims []tasks.Claimed
	var g errgroup.Group
	g.Go(func() (err error) {
		claims, err = k.store.Claim(context.Background(), claimer(time.Hour), []tasks.Ref{ref})
		return err
	})
	k.blocked(1)
	k.exec(conn, `commit`)
	if err := g.Wait(); err != nil || claims[0].Decision != tasks.DecisionClaimed || claims[0].Work.Lost != nil {
		t.Errorf("claim: %+v, %v", claims, err)
	}
}

// TestI7_ARowThatMovedBeforeItWasLockedIsStale makes the claim's statement wait for the row itself, so that the row is sure
// to be another version than the snapshot's, as one may be that is settled while the statement comes to it.
func TestI7_ARowThatMovedBeforeItWasLockedIsStale(t *testing.T) {
	for _, m := range []struct {
		name, verdict string
		mutate        func(sql string) string
	}{
		{"the store's own", "", func(sql string) string { return sql }},
		{"what the snapshot says is believed", "stopped", func(sql string) string {
			return strings.ReplaceAll(sql, "k.ask and not exists", "false and not exists")
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			k := newKit(t)
			ref, fresh := k.submitStop(), k.submitStop()
			// A settle that ends another version's attempt as well, of which the row lock alone tells nothing.
			first := k.claim(time.Hour, ref)[0]
			k.exec(k.admin, `update reply_tasks set lease_until = clock_timestamp() where id = $1`, ref.TaskID)
			by := claimer(time.Hour)
			by.Recovers = true
			second, err := k.store.Claim(t.Context(), by, []tasks.Ref{ref})
			if err != nil || second[0].Work == nil {
				t.Fatal(second, err)
			}
			found := ended(*second[0].Work)
			found.Call.Recovered = first.Version
			conn := k.beginSettle(found)
			k.exec(conn, `select from reply_tasks where id = $1 for update`, fresh.TaskID)
			verdicts := make(map[uuid.UUID]any)
			var g errgroup.Group
			g.Go(func() error {
				sql := m.mutate(strings.Replace(claimSQL, "for update of t skip locked", "for update of t", 1))
				rows, err := k.store.pool.Query(context.Background(), sql, uuidArray{ref.TaskID, fresh.TaskID}, textArray{"w", "w"},
					"worker", time.Hour.Microseconds(), time.Minute.Microseconds(), "sim", int64(0), false)
				if err != nil {
					return err
				}
				answers, err := pgx.CollectRows(rows, pgx.RowToMap)
				for _, a := range answers {
					verdicts[uuid.UUID(a["id"].([16]byte))] = a["verdict"]
				}
				return err
			})
			k.blocked(1)
			k.exec(conn, `commit`)
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			want := map[uuid.UUID]any{fresh.TaskID: "claimed"} // a first claim needs no ledger
			if m.verdict != "" {
				want[ref.TaskID] = m.verdict
			}
			if len(verdicts) != len(want) || verdicts[ref.TaskID] != want[ref.TaskID] || verdicts[fresh.TaskID] != want[fresh.TaskID] {
				t.Errorf("verdicts %v, want %v", verdicts, want)
			}
		})
	}
}

// TestI7_ARefusedSettleIsSeenByTheClaimThatWaitedForIt: such a settle changes the ledger and not the task's row.
func TestI7_ARefusedSettleIsSeenByTheClaimThatWaitedForIt(t *testing.T) {
	k := newKit(t)
	ref := k.submitStop()
	w := k.claim(time.Hour, ref)[0]
	k.exec(k.admin, `update reply_tasks set lease_until = clock_timestamp()`)
	conn := k.beginSettle(ended(w))
	var verdict any
	var g errgroup.Group
	g.Go(func() error {
		rows, err := k.store.pool.Query(context.Background(), strings.Replace(claimSQL, "for update of t skip locked", "for update of t", 1),
			uuidArray{ref.TaskID}, textArray{"w"}, "worker", time.Hour.Microseconds(), time.Minute.Microseconds(), "sim", int64(0), false)
		if err != nil {
			return err
		}
		answer, err := pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
		verdict = answer["verdict"]
		return err
	})
	k.blocked(1)
	k.exec(conn, `commit`)
	if err := g.Wait(); err != nil || verdict != "claimed" {
		t.Errorf("verdict %v, %v", verdict, err)
	}
}
