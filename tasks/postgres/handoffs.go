package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/tasks"
)

// perRun makes Postgres plan a statement each time it runs. The tables of the outbox go from empty to millions of rows
// and back: a plan that was kept from the empty table would scan all of a backlog, sorted, for every batch.
const perRun = pgx.QueryExecModeCacheDescribe

// pendingBound is where Pending stops counting.
const pendingBound = 10_001

// Outbox is the dispatcher's side of the handoffs table: it implements outbox.Store. Safe for concurrent use.
type Outbox struct {
	pool *pgxpool.Pool
}

// NewOutbox reads the outbox through pool, of which it needs at most five connections at a time.
func NewOutbox(pool *pgxpool.Pool) *Outbox { return &Outbox{pool: pool} }

const registerDispatcher = `
insert into dispatchers (owner, lease_until) values ($1, clock_timestamp() + $2::interval)
on conflict (owner) do update set lease_until = excluded.lease_until`

// All shards are locked, in order, before any lease is looked at: acquirers take turns, and each judges the leases by
// the clock after its wait. A second statement beside registerDispatcher, whose snapshot has our own registration.
const acquireShards = `
with live as (
    select greatest(count(*), 1) as n from (select lease_until from dispatchers order by owner) d
    where lease_until > clock_timestamp()
), forgotten as (
    delete from dispatchers where owner in (
        select owner from dispatchers where lease_until < clock_timestamp() - interval '1 hour'
        order by owner limit 100 for update skip locked)
), locked as materialized (
    select shard, owner, lease_until from outbox_shards order by shard for update
), share as (
    select ceil((select count(*) from locked)::numeric / n) as size from live
), candidate as (
    select shard, coalesce(owner = $1, false) as mine
    from locked where owner is null or owner = $1 or lease_until <= clock_timestamp()
), ranked as (
    select shard, mine, row_number() over (order by mine desc, shard) as place from candidate
), decided as (
    select shard, place <= size as own from ranked cross join share where mine or place <= size
)
update outbox_shards s
set owner = case when d.own then $1 end,
    lease_until = case when d.own then clock_timestamp() + $2::interval end
from decided d
where s.shard = d.shard
returning s.shard, d.own`

// Acquire registers owner and returns the shards that are its own for lease: see outbox.Store.
func (o *Outbox) Acquire(ctx context.Context, owner string, lease time.Duration) ([]int16, error) {
	if _, err := o.pool.Exec(ctx, registerDispatcher, owner, lease); err != nil {
		return nil, fmt.Errorf("register dispatcher: %w", err)
	}
	rows, err := o.pool.Query(ctx, acquireShards, owner, lease)
	if err != nil {
		return nil, fmt.Errorf("acquire shards: %w", err)
	}
	var own []int16
	var shard int16
	var kept bool
	_, err = pgx.ForEachRow(rows, []any{&shard, &kept}, func() error {
		if kept {
			own = append(own, shard)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("acquire shards: %w", err)
	}
	slices.Sort(own)
	return own, nil
}

const resignDispatcher = `
with gone as (delete from dispatchers where owner = $1),
mine as (select shard from (select shard, owner from outbox_shards order by shard for update) s where owner = $1)
update outbox_shards s set owner = null, lease_until = null from mine where s.shard = mine.shard`

// Resign gives up every shard of owner, so that others need not wait for its lease to end.
func (o *Outbox) Resign(ctx context.Context, owner string) error {
	if _, err := o.pool.Exec(ctx, resignDispatcher, owner); err != nil {
		return fmt.Errorf("resign shards: %w", err)
	}
	return nil
}

// The number that pg_current_xact_id draws is greater than that of every transaction that began before the snapshot was
// taken; the snapshot's own end is not, since it counts only what has completed.
const readHandoffs = `
with horizon as materialized (
    select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as running
)
select h.shard, h.id, h.task_id, h.workspace, h.conversation, h.trace_parent, h.accepted_at,
    running, pg_current_xact_id()::text::bigint
from unnest($1::smallint[], $2::bigint[]) m (shard, after)
cross join lateral (select * from handoffs h where h.shard = m.shard and h.id > m.after order by h.id limit $3) h
cross join horizon
order by h.shard, h.id`

// Read returns up to limit handoffs of each mark's shard, ordered by shard and id, and the read's horizon, which is
// missing when nothing was read. It relies on writers having a transaction number before they draw an id: a
// transaction that writes a handoff has written another row, or locked one, in an earlier step.
func (o *Outbox) Read(ctx context.Context, marks []tasks.Mark, limit int) ([]tasks.Handoff, tasks.Horizon, error) {
	shards, after := make([]int16, len(marks)), make([]int64, len(marks))
	for i, m := range marks {
		shards[i], after[i] = m.Shard, m.After
	}
	var horizon tasks.Horizon
	rows, err := o.pool.Query(ctx, readHandoffs, perRun, shards, after, limit)
	if err != nil {
		return nil, horizon, fmt.Errorf("read handoffs: %w", err)
	}
	read, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h tasks.Handoff, err error) {
		err = row.Scan(&h.Shard, &h.ID, &h.TaskID, &h.Workspace, &h.Conversation, &h.TraceParent, &h.AcceptedAt,
			&horizon.Running, &horizon.Next)
		return h, err
	})
	if err != nil {
		return nil, horizon, fmt.Errorf("read handoffs: %w", err)
	}
	return read, horizon, nil
}

const deleteHandoffs = `
delete from handoffs h using unnest($1::smallint[], $2::bigint[]) d (shard, id)
where h.shard = d.shard and h.id = d.id`

// Delete removes handoffs; one that is gone already is no error. Two dispatchers that delete the same rows, which a
// takeover can bring about, wait for one another at worst: rows are given in one order.
func (o *Outbox) Delete(ctx context.Context, published []tasks.Handoff) error {
	shards, ids := make([]int16, len(published)), make([]int64, len(published))
	for i, h := range published {
		shards[i], ids[i] = h.Shard, h.ID
	}
	if _, err := o.pool.Exec(ctx, deleteHandoffs, perRun, shards, ids); err != nil {
		return fmt.Errorf("delete handoffs: %w", err)
	}
	return nil
}

// The statement's time, which an index can be asked for: by clock_timestamp every delayed handoff would be looked at.
const dueHandoffs = `
select d.task_id, coalesce(t.workspace, ''), coalesce(t.conversation, '')
from delayed_handoffs d left join reply_tasks t on t.id = d.task_id
where d.due_at <= statement_timestamp()
order by d.due_at limit $1`

// A task that ended meanwhile needs no record: its delayed handoff goes, and nothing comes of it.
const promoteHandoffs = `
with due as materialized (
    select d.task_id, i.shard
    from unnest($1::uuid[], $2::smallint[]) i (task_id, shard)
    join delayed_handoffs d on d.task_id = i.task_id
    where d.due_at <= clock_timestamp()
    order by d.task_id for update of d skip locked
), gone as (
    delete from delayed_handoffs d using due where d.task_id = due.task_id
), moved as (
    insert into handoffs (shard, task_id, workspace, conversation, trace_parent, accepted_at, created_at)
    select due.shard, t.id, t.workspace, t.conversation, r.trace_parent, t.accepted_at, clock_timestamp()
    from due join reply_tasks t on t.id = due.task_id join task_requests r on r.task_id = t.id
    where t.finished_at is null
    returning 1
)
select count(*) from moved`

// Promote moves up to limit delayed handoffs that are due into the outbox, and returns how many. Two statements, since
// only Go knows a conversation's shard; the second one looks again at what is due and takes what nobody else holds.
func (o *Outbox) Promote(ctx context.Context, limit int) (int, error) {
	rows, err := o.pool.Query(ctx, dueHandoffs, perRun, limit)
	if err != nil {
		return 0, fmt.Errorf("read due handoffs: %w", err)
	}
	var ids []uuid.UUID
	var shards []int16
	var id uuid.UUID
	var workspace, conversation string
	_, err = pgx.ForEachRow(rows, []any{&id, &workspace, &conversation}, func() error {
		ids, shards = append(ids, id), append(shards, tasks.Shard(workspace, conversation))
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("read due handoffs: %w", err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	var moved int
	if err := o.pool.QueryRow(ctx, promoteHandoffs, perRun, ids, shards).Scan(&moved); err != nil {
		return 0, fmt.Errorf("promote due handoffs: %w", err)
	}
	return moved, nil
}

const leaderOfShards = `
select owner from outbox_shards where shard = 0 and lease_until > clock_timestamp()`

// Leader is the live dispatcher that reads shard 0, and does what one process does for all; "" while there is none.
func (o *Outbox) Leader(ctx context.Context) (string, error) {
	var owner string
	err := o.pool.QueryRow(ctx, leaderOfShards, perRun).Scan(&owner)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("leader of the outbox's shards: %w", err)
	}
	return owner, nil
}

// Both numbers come from the low ends of the shards, never from the whole table. The first of a shard is its oldest,
// but for a late commit.
const pendingHandoffs = `
select (
    select count(*) from (
        select 1 from (select shard from outbox_shards order by shard) s
        cross join lateral (select 1 from handoffs h where h.shard = s.shard order by h.id limit $1) h
        limit $1) counted
), coalesce(extract(epoch from clock_timestamp() - (
    select min(h.created_at) from (select shard from outbox_shards order by shard) s
    cross join lateral (select h.created_at from handoffs h where h.shard = s.shard order by h.id limit 1) h
)), 0)::float8`

// Pending counts the handoffs that are not published, up to 10,001, and says how long the oldest has waited.
func (o *Outbox) Pending(ctx context.Context) (int64, time.Duration, error) {
	var count int64
	var seconds float64
	if err := o.pool.QueryRow(ctx, pendingHandoffs, perRun, pendingBound).Scan(&count, &seconds); err != nil {
		return 0, 0, fmt.Errorf("count pending handoffs: %w", err)
	}
	return count, time.Duration(seconds * float64(time.Second)), nil
}
