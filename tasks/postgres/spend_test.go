package postgres

import (
	"context"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fencepost/fencepost/tasks"
)

// settledLedger has attempts of each kind: accepted, failed, unknown, unpriced, late, recovered in time and in vain, never
// heard of, under way.
func (k *kit) settledLedger() {
	k.Helper()
	ctx := context.Background()
	refs := k.submit(10)
	works := k.claim(time.Hour, refs...)
	priced := func(w tasks.Work) tasks.Settlement {
		s := complete(w, "reply")
		tokens, amount := int64(7), int64(13)
		s.Call.InputTokens, s.Call.OutputTokens, s.Call.PicoUSD = &tokens, &tokens, &amount
		return s
	}
	failed, unknown := priced(works[1]), complete(works[2], "")
	failed.Outcome, failed.Failure.Class = tasks.OutcomeFail, "permanent"
	unknown.Outcome, unknown.Failure.Class = tasks.OutcomeRetry, "ambiguous"
	k.exec(k.admin, `update reply_tasks set lease_until = lease_until - interval '2 hours' where id = any($1::uuid[])`,
		[]string{refs[3].TaskID.String(), refs[4].TaskID.String(), refs[5].TaskID.String(), refs[6].TaskID.String(), refs[7].TaskID.String()})
	again := k.claim(time.Hour, refs[3:8]...)
	unpriced := priced(again[0])
	unpriced.Call.PicoUSD = nil
	recovered, inVain := priced(again[1]), priced(again[2])
	recovered.Call.Recovered, inVain.Call.Recovered = works[4].Version, works[5].Version
	for _, cancelled := range []tasks.Ref{refs[5], refs[9]} {
		if _, _, err := k.store.Cancel(ctx, "w", cancelled.TaskID); err != nil {
			k.Fatal(err)
		}
	}
	if _, err := k.store.Settle(ctx, []tasks.Settlement{
		priced(works[0]), failed, unknown, priced(works[3]), unpriced, recovered, inVain, priced(again[3]), // again[4] and works[8] are under way
	}); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) sums() (all []tasks.Spent) {
	k.Helper()
	for _, by := range tasks.SpendBys {
		s, err := k.store.Spend(context.Background(), tasks.SpendQuery{Workspace: "w", By: by})
		if err != nil {
			k.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// TestI7_TheLedgerThatIsThereIsSummed: the migration begins with the ledger that it finds.
func TestI7_TheLedgerThatIsThereIsSummed(t *testing.T) {
	k := newKit(t)
	k.settledLedger()
	want := k.sums()
	if total := want[0].Total; total.Attempts != 13 || total.UnknownAttempts != 4 || total.UnpricedAttempts != 1 || total.NotAccepted.Attempts != 3 {
		t.Errorf("the ledger comes to %+v", total)
	}
	file, err := os.ReadFile("../../migrations/00006_spend.sql")
	if err != nil {
		t.Fatal(err)
	}
	backfill := regexp.MustCompile(`(?s)insert into spend_changes [^;]*;`).Find(file)
	k.exec(k.admin, `truncate spend_changes, spend_days, spend_documents, spend_conversations`)
	k.exec(k.admin, string(backfill))
	for range 2 {
		if diff := cmp.Diff(want, k.sums()); diff != "" {
			t.Errorf("what the migration finds (-was +is):\n%s", diff)
		}
		if _, err := k.store.FoldSpend(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFoldsTakeTurns: who finds another one folding leaves it to that.
func TestFoldsTakeTurns(t *testing.T) {
	k := newKit(t)
	k.settledLedger()
	other := k.connect()
	k.exec(other, `begin`)
	k.exec(other, `select pg_advisory_xact_lock($1)`, int64(foldSpendLock))
	want := k.sums()
	if n, err := k.store.FoldSpend(t.Context(), 100); n != 0 || err != nil {
		t.Errorf("folded %d beside another, %v", n, err)
	}
	k.exec(other, `rollback`)
	if n, err := k.store.FoldSpend(t.Context(), 100); n == 0 || err != nil {
		t.Errorf("folded %d, %v", n, err)
	}
	if diff := cmp.Diff(want, k.sums()); diff != "" {
		t.Errorf("folded (-before +after):\n%s", diff)
	}
	if left := count(t, k.store.pool, `select count(*) from spend_changes`); left != 0 {
		t.Errorf("%d changes are left", left)
	}
}

func TestSpenders(t *testing.T) {
	k := newKit(t)
	if names, err := k.store.Spenders(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
	k.settledLedger()
	for range 2 {
		k.exec(k.admin, `insert into spend_changes (workspace, task_id, day, model, sign, unknown, unpriced, not_accepted)
			select w, gen_random_uuid(), '2026-11-30', 'm', 1, false, false, false from unnest('{b,a,Z,b}'::text[]) w`)
		if names, err := k.store.Spenders(t.Context()); err != nil || !slices.Equal(names, []string{"Z", "a", "b", "w"}) {
			t.Errorf("%v, %v", names, err)
		}
		if _, err := k.store.FoldSpend(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
	}
}
