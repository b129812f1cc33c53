package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func (k *kit) sweep(c tasks.SweepConfig) tasks.Swept {
	k.Helper()
	out, err := k.store.Sweep(context.Background(), c)
	if err != nil {
		k.Fatal(err)
	}
	return out
}

// old completes tasks and makes them, and their keys, older than a day.
func (k *kit) old(n int) []tasks.Ref {
	k.Helper()
	refs := k.submit(n)
	var items []tasks.Settlement
	for _, w := range k.claim(time.Hour, refs...) {
		items = append(items, complete(w, "reply"))
	}
	if _, err := k.store.Settle(context.Background(), items); err != nil {
		k.Fatal(err)
	}
	k.advance(25 * time.Hour)
	return refs
}

// TestSweepWaitsForNobody: what somebody holds is left to the next sweep, and all else goes.
func TestSweepWaitsForNobody(t *testing.T) {
	k := newKit(t)
	refs := k.old(10)
	other := k.connect()
	k.exec(other, `begin`)
	k.exec(other, `select from submissions where task_id = $1 for update`, refs[0].TaskID)
	k.exec(other, `select from submissions where task_id = $1 for key share`, refs[1].TaskID)
	k.exec(other, `select from reply_tasks where id = $1 for update`, refs[2].TaskID)
	k.exec(other, `select from messages where id = (select message_id from reply_tasks where id = $1) for update`, refs[3].TaskID)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	swept, err := k.store.Sweep(ctx, tasks.SweepConfig{Tasks: time.Hour})
	if err != nil || swept.Keys != 8 || swept.Tasks != 8 {
		t.Errorf("swept %+v, %v; want 8 keys and 8 tasks", swept, err)
	}
	k.exec(other, `commit`)
	if swept := k.sweep(tasks.SweepConfig{Tasks: time.Hour}); swept.Keys != 2 || swept.Tasks != 2 {
		t.Errorf("swept %+v, want the rest", swept)
	}
	for _, table := range []string{"reply_tasks", "task_requests", "messages", "replies", "attempts", "submissions", "delayed_handoffs"} {
		if n := count(t, k.store.Pool(), `select count(*) from `+table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}

// TestI3_ASweepTakesNoMessageFromARegeneration, whichever of the two comes first.
func TestI3_ASweepTakesNoMessageFromARegeneration(t *testing.T) {
	k := newKit(t)
	ctx := t.Context()
	regenerate := func(ref tasks.Ref) tasks.Submission {
		o, err := k.store.Original(ctx, ref.Workspace, ref.TaskID)
		if err != nil {
			t.Fatal(err)
		}
		o.Kind, o.Regenerates, o.Operation, o.TaskID, o.Retention = tasks.KindRegenerate, ref.TaskID, tasks.OperationRegenerate, uuid.Must(uuid.NewV7()), time.Hour
		o.Key = o.TaskID.String()
		return o
	}
	refs := k.old(2)
	first, second := regenerate(refs[0]), regenerate(refs[1])

	// The regeneration has looked, and is not committed.
	other := k.connect()
	k.exec(other, `begin`)
	k.exec(other, `prepare found as `+messagesSQL)
	k.exec(other, `execute found('{`+first.MessageID.String()+`}', '{`+first.Workspace+`}', '{`+first.Conversation+`}')`)
	if swept := k.sweep(tasks.SweepConfig{Tasks: time.Hour}); swept.Tasks != 1 {
		t.Errorf("swept %+v, want one task: the other's message is held", swept)
	}
	k.exec(other, `rollback`)
	if out, err := k.store.Submit(ctx, []tasks.Submission{first}); err != nil || out[0].Err != nil {
		t.Fatalf("submit: %+v, %v", out, err)
	}
	if swept := k.sweep(tasks.SweepConfig{Tasks: time.Hour}); swept.Tasks != 0 {
		t.Errorf("swept %+v, want none: something answers the message anew", swept)
	}
	if w := k.claim(time.Hour, tasks.Ref{TaskID: first.TaskID, Workspace: first.Workspace}); w[0].Request.Content != "hello" {
		t.Errorf("work %+v", w[0])
	}

	// The sweep has deleted, and is not committed.
	third := regenerate(k.old(1)[0])
	k.exec(other, `begin`)
	k.exec(other, `delete from messages where id = $1`, third.MessageID)
	answer := make(chan error, 1)
	go func() {
		out, err := k.store.Submit(ctx, []tasks.Submission{third})
		if err == nil {
			err = out[0].Err
		}
		answer <- err
	}()
	k.blocked(1)
	k.exec(other, `commit`)
	if err := <-answer; !errors.Is(err, tasks.ErrInvalid) {
		t.Errorf("regenerate what is being deleted: %v, want %v", err, tasks.ErrInvalid)
	}
	if out, err := k.store.Submit(ctx, []tasks.Submission{second}); err != nil || !errors.Is(out[0].Err, tasks.ErrInvalid) {
		t.Errorf("regenerate what is gone: %+v, %v; want %v", out, err, tasks.ErrInvalid)
	}
}

func TestSweepKeepsTheTextOfARunningAttempt(t *testing.T) {
	k := newKit(t)
	ctx := t.Context()
	works := k.claim(time.Hour, k.submit(2)...)
	for _, w := range works {
		for version := range int64(2) { // 0: of an earlier attempt, as it were
			piece := tasks.LivePiece{TaskID: w.TaskID, Version: version, Tokens: 1, Text: "a"}
			if err := k.store.Publish(ctx, []tasks.LivePiece{piece}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := k.store.Settle(ctx, []tasks.Settlement{complete(works[0], "reply")}); err != nil {
		t.Fatal(err)
	}
	k.exec(k.admin, `update live_texts set created_at = created_at - interval '2 hours'`)
	if dry := k.sweep(tasks.SweepConfig{DryRun: true}); dry.LiveTexts != 3 {
		t.Errorf("a dry run counts %+v, want 3 texts", dry)
	}
	if swept := k.sweep(tasks.SweepConfig{}); swept.LiveTexts != 3 {
		t.Errorf("swept %+v, want 3 texts", swept)
	}
	left, err := k.store.Live(ctx, []tasks.LiveCursor{{TaskID: works[0].TaskID}, {TaskID: works[1].TaskID}})
	if err != nil || len(left) != 1 || left[0].TaskID != works[1].TaskID || left[0].Version != 1 {
		t.Errorf("left %+v, %v", left, err)
	}
}

func TestSweepOfBudgetDays(t *testing.T) {
	k := newKit(t)
	k.exec(k.admin, `insert into budget_days select 'w' || n, now()::date - n * 30, 1, 1 from generate_series(0, 4) n`)
	k.exec(k.admin, `insert into budget_changes select 'w' || n, now()::date - n * 30, 1, 1 from generate_series(0, 4) n`)
	if swept := k.sweep(tasks.SweepConfig{}); swept.BudgetDays != 2 || swept.More {
		t.Errorf("swept %+v, want the day of 120 days ago in both tables", swept)
	}
	if swept := k.sweep(tasks.SweepConfig{BudgetDays: 24 * time.Hour, Limit: 1}); swept.BudgetDays != 2 || !swept.More {
		t.Errorf("swept %+v, want one of each table, and that there is more", swept)
	}
}
