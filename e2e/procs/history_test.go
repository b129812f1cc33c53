package procs

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/e2e/history"
)

// history is a run as it was seen from outside: what was accepted, the records, the ends of the tasks, the positions, the
// requests at the model, and the store as it stands at the end. What happened inside the processes is not in it, so not
// every invariant is checked from it; those of the simulation are.
func (w *World) history(t *testing.T, watch *Watch, accepted map[string]Task) []history.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var events []history.Event
	ids := map[string]string{}
	for content, task := range accepted {
		ids[content] = task.ID
		events = append(events, history.Event{Op: history.Submit, Type: history.OK, Task: task.ID, Workspace: "test",
			Conversation: task.Conversation, MaxAttempts: task.MaxAttempts})
	}
	records, err := w.Records(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		events = append(events, history.Event{Op: history.Record, Type: history.OK, Partition: r.partition, Offset: r.offset, Task: r.task, Workspace: "test"})
	}
	var began time.Time
	if err := w.Pool.QueryRow(ctx, "select min(accepted_at) from reply_tasks").Scan(&began); err != nil {
		t.Fatal(err)
	}

	// Ends and positions are in the order of the database's clock; a task that ended at the instant of a look had ended.
	var middle []history.Event
	rows, err := w.Pool.Query(ctx, `select t.id::text, t.workspace, t.status, coalesce(t.reply_id::text, ''), t.finished_at
		from reply_tasks t where t.finished_at is not null`)
	if err != nil {
		t.Fatal(err)
	}
	var e history.Event
	var at time.Time
	if _, err := pgx.ForEachRow(rows, []any{&e.Task, &e.Workspace, &e.Status, &e.Reply, &at}, func() error {
		e.Op, e.Type, e.T = history.Read, history.OK, at.Sub(began)
		middle = append(middle, e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range watch.seen {
		e := history.Event{Op: history.Wire, Type: history.OK, T: c.seenBy.Sub(began), Partition: c.partition, Offset: c.offset}
		if c.span {
			e.Offset, e.Ahead = 0, []history.Span{{From: c.from, To: c.offset}}
		}
		middle = append(middle, e)
	}
	slices.SortStableFunc(middle, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	events = append(events, middle...)

	for _, call := range w.Model.Calls() {
		events = append(events, history.Event{ID: call.N, Op: history.Call, Type: history.Invoke, Proc: "model", Task: ids[call.Content]})
	}
	return w.final(t, ctx, append(events, history.Event{Op: history.Quiet}))
}

// final adds the store as it stands.
func (w *World) final(t *testing.T, ctx context.Context, events []history.Event) []history.Event {
	t.Helper()
	rows, err := w.Pool.Query(ctx, `select t.id::text, t.workspace, t.status, coalesce(r.id::text, ''), t.assignment_version
		from reply_tasks t left join replies r on r.task_id = t.id`)
	if err != nil {
		t.Fatal(err)
	}
	var e history.Event
	if _, err := pgx.ForEachRow(rows, []any{&e.Task, &e.Workspace, &e.Status, &e.Reply, &e.Version}, func() error {
		e.Op, e.Type = history.Final, history.OK
		events = append(events, e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return events
}
