package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

var _ tasks.Rearmer = (*Store)(nil)

const rearmLockWait = 10 * time.Second

// The replay's row is locked for the whole step: two processes that go on with one replay take turns, and the second one's
// statements see whom the first has re-armed.
const lockReplaySQL = `select from replays where id = $1 and done_at is null for update`

// Only Go knows a conversation's shard, and a task's conversation never changes.
const rearmShardsSQL = `
select i.n, t.conversation
from unnest($1::uuid[], $2::text[]) with ordinality as i (task_id, workspace, n)
join reply_tasks t on t.id = i.task_id and t.workspace = i.workspace`

// The shape is that of the package's judged statements. Each task's row is written with its handoff, which the recovery of
// lost tasks relies on. A delayed handoff would be due after its task from now on, so it goes. A running task whose lease is
// over stays one: its takeover is counted as always. What was reserved for a failed task went back when it failed, and is
// taken again, from the budget of today and without asking: an operator wants the task to run.
const rearmSQL = `
with input as materialized (
    select * from unnest($2::uuid[], $3::text[], $4::smallint[]) with ordinality as i (task_id, workspace, shard, n)
), locked as materialized (
    select i.n, i.shard, t.id, t.workspace, t.conversation, t.accepted_at, t.status, t.lease_until, t.on_ambiguous, t.failure_class,
        t.reserved_picousd, t.reserved_on
    from input i join reply_tasks t on t.id = i.task_id and t.workspace = i.workspace
    order by t.id for update of t
), clock as materialized (
    select clock_timestamp() as now from (select count(*) from locked) n
), judged as materialized (
    select l.*, c.now, case
        when exists (select from replayed_tasks r where r.task_id = l.id and r.replay_id = $1) then 'already'
        when l.status in ('completed', 'cancelled') then l.status
        when l.status = 'running' and l.lease_until > c.now then 'in_work'
        when l.status = 'failed' and not $5::boolean or l.status <> 'failed' and not $6::boolean then 'excluded'
        when l.status = 'failed' and l.on_ambiguous = 'stop' and l.failure_class = 'ambiguous' and not $10::boolean then 'stopped'
        else 'rearmed' end as verdict
    from locked l cross join clock c
), moved as (
    update reply_tasks t set
        status = case j.status when 'running' then 'running' else 'queued' end,
        finished_at = null,
        available_at = j.now,
        deadline = greatest(t.deadline, j.now + $9::bigint * interval '1 microsecond'),
        max_attempts = least(t.max_attempts::bigint + $7::integer, 1000000),
        max_interruptions = least(t.max_interruptions::bigint + $8::integer, 1000000),
        on_ambiguous = case when $10::boolean then 'retry' else t.on_ambiguous end,
        reserved_on = case when j.status = 'failed' and t.reserved_picousd is not null then (j.now at time zone 'utc')::date
            else t.reserved_on end
    from judged j where t.id = j.id and j.verdict = 'rearmed'
), noted as (
    insert into replayed_tasks (task_id, replay_id, rearmed_at) select j.id, $1, j.now from judged j where j.verdict = 'rearmed'
), undelayed as (
    delete from delayed_handoffs d using judged j where d.task_id = j.id and j.verdict = 'rearmed'
), handed as (
    insert into handoffs (shard, task_id, workspace, conversation, trace_parent, accepted_at, created_at)
    select j.shard, j.id, j.workspace, j.conversation, r.trace_parent, j.accepted_at, j.now
    from judged j join task_requests r on r.task_id = j.id where j.verdict = 'rearmed' order by j.id
), charged as (
    insert into budget_changes (workspace, day, spent, reserved)
    select j.workspace, (j.now at time zone 'utc')::date, 0, j.reserved_picousd from judged j
    where j.verdict = 'rearmed' and j.status = 'failed' and j.reserved_picousd is not null
)
select j.n, j.verdict from judged j`

const stepReplaySQL = `
update replays set cursor = $2, rearmed = rearmed + $3, skipped = skipped + $4, updated_at = clock_timestamp() where id = $1`

// Rearm implements tasks.Rearmer.
func (s *Store) Rearm(ctx context.Context, step tasks.RearmStep, terms tasks.RearmTerms) ([]tasks.RearmVerdict, error) {
	var out []tasks.RearmVerdict
	err := repeat(ctx, func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
			out, err = rearm(ctx, tx, step, terms)
			return err
		})
	})
	if errors.Is(err, tasks.ErrNotFound) {
		return nil, err
	}
	return out, s.wrap(ctx, "rearm", err)
}

func rearm(ctx context.Context, tx pgx.Tx, step tasks.RearmStep, terms tasks.RearmTerms) ([]tasks.RearmVerdict, error) {
	if _, err := tx.Exec(ctx, lockWaitSQL, milliseconds(rearmLockWait)); err != nil {
		return nil, err
	}
	if tag, err := tx.Exec(ctx, lockReplaySQL, step.Replay); err != nil || tag.RowsAffected() == 0 {
		return nil, errors.Join(err, tasks.ErrNotFound)
	}
	all := indexes(len(step.Items))
	ids := uuids(step.Items, all, func(r *tasks.Ref) uuid.UUID { return r.TaskID })
	names := texts(step.Items, all, func(r *tasks.Ref) string { return workspace(r.Workspace) })
	out, shards := make([]tasks.RearmVerdict, len(step.Items)), make([]int16, len(step.Items))
	for i := range out {
		out[i] = tasks.RearmMissing
	}
	if len(step.Items) > 0 {
		var n int
		var text string
		rows, err := tx.Query(ctx, rearmShardsSQL, ids, names)
		if err != nil {
			return nil, err
		}
		_, err = pgx.ForEachRow(rows, []any{&n, &text}, func() error {
			shards[n-1] = tasks.Shard(names[n-1], text)
			return nil
		})
		if err != nil {
			return nil, err
		}
		rows, err = tx.Query(ctx, rearmSQL, step.Replay, ids, names, shards, terms.Failed, terms.Unfinished,
			number(terms.Attempts), number(terms.Interruptions), max(0, terms.Deadline.Microseconds()), terms.Unsure)
		if err != nil {
			return nil, err
		}
		_, err = pgx.ForEachRow(rows, []any{&n, &text}, func() error {
			out[n-1] = tasks.RearmVerdict(text)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	rearmed, skipped := int64(0), step.Skipped
	for _, v := range out {
		switch v {
		case tasks.RearmDone:
			rearmed++
		case tasks.RearmAlready:
		default:
			skipped++
		}
	}
	_, err := tx.Exec(ctx, stepReplaySQL, step.Replay, step.Cursor, rearmed, skipped)
	return out, err
}

const lookSQL = `
select i.n, t.status, t.status = 'running' and t.lease_until > clock_timestamp(),
    t.status = 'failed' and t.on_ambiguous = 'stop' and coalesce(t.failure_class, '') = 'ambiguous',
    exists (select from replayed_tasks d where d.task_id = t.id and d.replay_id = $3), coalesce(r.model, ''), c.priced, c.picousd
from unnest($1::uuid[], $2::text[]) with ordinality as i (task_id, workspace, n)
join reply_tasks t on t.id = i.task_id and t.workspace = i.workspace
left join task_requests r on r.task_id = t.id
cross join lateral (
    select count(*) as priced, least(coalesce(sum(a.picousd), 0), 9000000000000000000)::bigint as picousd
    from attempts a where a.task_id = t.id and a.picousd is not null and a.output_tokens > 0
) c`

// Look implements tasks.Rearmer.
func (s *Store) Look(ctx context.Context, replay uuid.UUID, items []tasks.Ref) ([]tasks.Look, error) {
	out := make([]tasks.Look, len(items))
	for _, part := range parts(indexes(len(items)), func(int) int { return 0 }) {
		rows, err := s.pool.Query(ctx, lookSQL,
			uuids(items, part, func(r *tasks.Ref) uuid.UUID { return r.TaskID }),
			texts(items, part, func(r *tasks.Ref) string { return workspace(r.Workspace) }), replay)
		if err != nil {
			return nil, s.wrap(ctx, "look at tasks", err)
		}
		var n int
		var l tasks.Look
		_, err = pgx.ForEachRow(rows, []any{&n, &l.Status, &l.InWork, &l.Stopped, &l.Already, &l.Model, &l.Priced, &l.PicoUSD}, func() error {
			out[part[n-1]] = l
			return nil
		})
		if err != nil {
			return nil, s.wrap(ctx, "look at tasks", err)
		}
	}
	return out, nil
}

// A page looks at so many tasks at most, whatever few of them fit, so that no statement goes through the whole table.
const selectLook = 20_000

const selectSQL = `
select t.id, t.workspace, t.fits from (
    select t.id, t.workspace, ($3::text = '' or t.status = $3) and ($4::text = '' or t.failure_class = $4)
        and ($5::text = '' or t.workspace = $5)
        and ($6::bigint = 0 or coalesce(t.finished_at, t.accepted_at) >= clock_timestamp() - $6::bigint * interval '1 microsecond') as fits
    from reply_tasks t where t.id > $1 order by t.id limit $2
) t`

// Select implements tasks.Rearmer.
func (s *Store) Select(ctx context.Context, w tasks.Selection, after uuid.UUID, limit int) (found []tasks.Ref, next uuid.UUID, done bool, err error) {
	name := workspace(w.Workspace)
	if name != w.Workspace {
		return nil, after, true, nil
	}
	rows, err := s.pool.Query(ctx, selectSQL, after, selectLook, tasks.Clean(string(w.Status)), tasks.Clean(w.Class), name, w.Within.Microseconds())
	if err != nil {
		return nil, after, false, s.wrap(ctx, "select tasks", err)
	}
	defer rows.Close()
	next, looked := after, 0
	for rows.Next() {
		var r tasks.Ref
		var fits bool
		if err := rows.Scan(&r.TaskID, &r.Workspace, &fits); err != nil {
			return nil, after, false, s.wrap(ctx, "select tasks", err)
		}
		if fits && len(found) == limit {
			return found, next, false, nil
		}
		if looked++; fits {
			found = append(found, r)
		}
		next = r.TaskID
	}
	if err := rows.Err(); err != nil {
		return nil, after, false, s.wrap(ctx, "select tasks", err)
	}
	return found, next, looked < selectLook, nil
}
