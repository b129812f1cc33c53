package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// noteLockWait is short: a call waits for its note before it goes on the wire.
const noteLockWait = 2 * time.Second

// The tasks are locked although nothing of them is written: whoever writes ledger rows has the rows of their tasks, taken
// in one order, and two who take them otherwise would wait for each other.
const noteHead = `
with input as (
    select * from unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $5::bytea[])
        with ordinality as i (task_id, workspace, version, ref, request, n)
), locked as materialized (
    select i.n, i.version, i.ref, i.request, t.id
    from input i join reply_tasks t on t.id = i.task_id and t.workspace = i.workspace
    order by t.id for update of t`

const noteTail = `
), noted as (
    update attempts a set provider_ref = coalesce(nullif(l.ref, ''), a.provider_ref), request_hash = coalesce(l.request, a.request_hash)
    from locked l where a.task_id = l.id and a.assignment_version = l.version and a.ended_at is null
)
select l.n from locked l`

const (
	noteFreeSQL = noteHead + ` skip locked` + noteTail
	noteHeldSQL = noteHead + noteTail
)

// Note implements tasks.Store. When somebody holds the row of a task for longer than two seconds, the others are written
// and the call fails.
func (s *Store) Note(ctx context.Context, items []tasks.Note) error {
	items = joined(items)
	err := judged[struct{}]{
		pool: s.pool, free: noteFreeSQL, held: noteHeldSQL, wait: noteLockWait,
		args: func(part []int) []any {
			return []any{
				uuids(items, part, func(n *tasks.Note) uuid.UUID { return n.TaskID }),
				texts(items, part, func(n *tasks.Note) string { return workspace(n.Workspace) }),
				column(items, part, func(n *tasks.Note) int64 { return n.Version }),
				texts(items, part, func(n *tasks.Note) string { return tasks.Clean(n.Ref) }),
				column(items, part, func(n *tasks.Note) []byte { return n.Request }),
			}
		},
		scan:  func(rows pgx.Rows) (place int, none struct{}, err error) { return place, none, rows.Scan(&place) },
		alone: func(_ int, err error) error { return err },
	}.run(ctx, indexes(len(items)), make([]struct{}, len(items)))
	return s.wrap(ctx, "note", err)
}

// joined makes one of the notes on one attempt: an update takes any one of several rows that are for it.
func joined(items []tasks.Note) []tasks.Note {
	out := make([]tasks.Note, 0, len(items))
	at := make(map[tasks.Assignment]int, len(items))
	for _, item := range items {
		i, known := at[item.Assignment]
		if !known {
			at[item.Assignment] = len(out)
			out = append(out, item)
			continue
		}
		if item.Ref != "" {
			out[i].Ref = item.Ref
		}
		if item.Request != nil {
			out[i].Request = item.Request
		}
	}
	return out
}
