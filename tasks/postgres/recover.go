package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// The time is the statement's, which is before its snapshot was taken: what was due by it was due in the snapshot.
const snapshotOutbox = `
select statement_timestamp(), pg_current_snapshot()::text, array(
    (select h.task_id from (select shard from outbox_shards order by shard) s
        cross join lateral (select task_id from handoffs h where h.shard = s.shard order by h.id limit $1 + 1) h
        limit $1 + 1)
    union all
    (select task_id from delayed_handoffs where due_at <= statement_timestamp() order by due_at limit $1 + 1)
)`

// Snapshot implements outbox.Store.
func (o *Outbox) Snapshot(ctx context.Context, bound int) (tasks.Snapshot, bool, error) {
	var s tasks.Snapshot
	var ids []uuid.UUID
	if err := o.pool.QueryRow(ctx, snapshotOutbox, perRun, bound).Scan(&s.At, &s.Seen, &ids); err != nil {
		return s, false, fmt.Errorf("snapshot of the outbox: %w", err)
	}
	if len(ids) > bound {
		return s, false, nil
	}
	s.HandedOff = make(map[uuid.UUID]struct{}, len(ids))
	for _, id := range ids {
		s.HandedOff[id] = struct{}{}
	}
	return s, true, nil
}

// Whether a row is as the snapshot of $1 (time) and $2 (transactions) saw it, and was due then for $3: nothing has
// claimed, prolonged, settled or recovered the task since, and no transaction that was under way has brought it. A row
// has the lower 32 bits of the number of the transaction that wrote it last: the nearest such number to the snapshot's
// is meant.
const lostByThen = `
    (t.status = 'queued' and t.available_at <= $1::timestamptz - $3::interval
        or t.status = 'running' and t.lease_until <= $1::timestamptz - $3::interval)
    and pg_visible_in_snapshot(greatest(0, pg_snapshot_xmax($2::pg_snapshot)::text::bigint
        + (t.xmin::text::bigint - pg_snapshot_xmax($2::pg_snapshot)::text::bigint + 2147483648 & 4294967295)
        - 2147483648)::text::xid8, $2::pg_snapshot)`

const unfinishedTasks = `
select t.id, t.workspace, t.conversation,` + lostByThen + `
from reply_tasks t where t.finished_at is null and t.id > $4 order by t.id limit $5`

// The row is written as it was, so that no other recovery by this snapshot or an older one takes it for lost again. It
// is locked before the handoff draws its id: see Read.
const recoverTasks = `
with lost as materialized (
    select t.id, t.workspace, t.conversation, t.accepted_at, i.shard
    from unnest($4::uuid[], $5::smallint[]) i (id, shard) join reply_tasks t on t.id = i.id
    where` + lostByThen + `
    order by t.id for update of t skip locked
), marked as (
    update reply_tasks t set available_at = t.available_at from lost where t.id = lost.id
), handed as (
    insert into handoffs (shard, task_id, workspace, conversation, trace_parent, accepted_at, created_at)
    select lost.shard, lost.id, lost.workspace, lost.conversation, r.trace_parent, lost.accepted_at, clock_timestamp()
    from lost join task_requests r on r.task_id = lost.id order by lost.id
)
select id from lost order by id`

// Recover implements outbox.Store. Two statements, since only Go knows a conversation's shard; the second one looks
// again at what the first has found, under the rows' locks.
func (o *Outbox) Recover(ctx context.Context, s tasks.Snapshot, due time.Duration, after uuid.UUID, limit int) (recovered []uuid.UUID, next uuid.UUID, err error) {
	rows, err := o.pool.Query(ctx, unfinishedTasks, perRun, s.At, s.Seen, due, after, limit)
	if err != nil {
		return nil, after, fmt.Errorf("read unfinished tasks: %w", err)
	}
	var ids []uuid.UUID
	var shards []int16
	var id uuid.UUID
	var workspace, conversation string
	var lost bool
	looked := 0
	_, err = pgx.ForEachRow(rows, []any{&id, &workspace, &conversation, &lost}, func() error {
		looked++
		if _, handed := s.HandedOff[id]; lost && !handed {
			ids, shards = append(ids, id), append(shards, tasks.Shard(workspace, conversation))
		}
		return nil
	})
	if err != nil {
		return nil, after, fmt.Errorf("read unfinished tasks: %w", err)
	}
	if looked == limit {
		next = id
	}
	if len(ids) == 0 {
		return nil, next, nil
	}
	rows, err = o.pool.Query(ctx, recoverTasks, perRun, s.At, s.Seen, due, ids, shards)
	if err != nil {
		return nil, after, fmt.Errorf("recover tasks: %w", err)
	}
	recovered, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, after, fmt.Errorf("recover tasks: %w", err)
	}
	return recovered, next, nil
}
