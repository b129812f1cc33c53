package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// Two that sweep at once share the rows: neither waits for what the other deletes, nor for what somebody else holds.

const expiredKeys = `
    select s.workspace, s.operation, s.key from submissions s
    where s.expires_at <= statement_timestamp()
        and (select t.finished_at is not null from reply_tasks t where t.id = s.task_id) is not false
    order by s.expires_at limit $1`

const (
	sweepKeysSQL = `
with doomed as materialized (` + expiredKeys + ` for update of s skip locked
)
delete from submissions s using doomed d
where s.workspace = d.workspace and s.operation = d.operation and s.key = d.key`
	countKeysSQL = `
select count(*) from (` + expiredKeys + `) x`
)

// Sweep deletes what c does not keep, in one statement or a few of each kind.
func (s *Store) Sweep(ctx context.Context, c tasks.SweepConfig) (tasks.Swept, error) {
	c = c.WithDefaults()
	out := tasks.Swept{After: c.After}
	for _, kind := range []struct {
		rows         *int
		sweep, count string
		age          time.Duration // 0: the statement knows by itself
	}{
		{&out.Keys, sweepKeysSQL, countKeysSQL, 0},
		{&out.LiveTexts, sweepLiveSQL, countLiveSQL, c.LiveTexts},
		{&out.BudgetDays, sweepDaysSQL, countDaysSQL, c.BudgetDays + 24*time.Hour},
		{&out.BudgetDays, sweepChangesSQL, countChangesSQL, c.BudgetDays + 24*time.Hour},
	} {
		args := []any{c.Limit}
		if kind.age > 0 {
			args = []any{kind.age.Microseconds(), c.Limit}
		}
		n, err := s.sweep(ctx, c.DryRun, kind.sweep, kind.count, args)
		if err != nil {
			return out, s.wrap(ctx, "sweep", err)
		}
		*kind.rows += n
		out.More = out.More || n >= c.Limit
	}
	if c.Tasks <= 0 {
		return out, nil
	}
	return out, s.wrap(ctx, "sweep tasks", s.sweepTasks(ctx, c, &out))
}

func (s *Store) sweep(ctx context.Context, dry bool, sweep, count string, args []any) (n int, err error) {
	if dry {
		err = s.pool.QueryRow(ctx, count, args...).Scan(&n)
		return n, err
	}
	err = repeat(ctx, func() error {
		tag, err := s.pool.Exec(ctx, sweep, args...)
		n = int(tag.RowsAffected())
		return err
	})
	return n, err
}

const (
	walked   = 500 // tasks that one transaction looks at
	maxWalks = 20  // of one call, whatever they find, unless its limit is beyond
)

// Tasks are walked in the order of their ids, which is that of their acceptance but for the clocks of those who chose
// them: the index that finds them is there anyway, and the walk ends where they are too young to have finished long ago.
//
// A message goes with the task that it came with, and that waits until nothing that answers the message anew is left.
// Whoever regenerates holds the message (messagesSQL), so that what was locked here is judged by a later statement. A
// join would be planned for a tenth of the table, which is what a limit is taken for, and go through all of another.
const oldTasks = `
with walked as materialized (
    select id, message_id, kind, accepted_at, finished_at from reply_tasks where id > $1 order by id limit $2
), old as materialized (
    select w.id, w.message_id, w.kind
    from walked w
    where w.finished_at <= statement_timestamp() - $3::bigint * interval '1 microsecond'
        and (select coalesce(r.key_expires_at, w.accepted_at + interval '90 days') from task_requests r where r.task_id = w.id)
            <= statement_timestamp()
        and not (w.kind = 'reply' and exists (select from reply_tasks a where a.message_id = w.message_id and a.kind = 'regenerate'))
)`

const (
	lockTasksSQL = oldTasks + `, locked as materialized (
    select o.id from old o
    cross join lateral (select from reply_tasks t where t.id = o.id for update skip locked) t
), said as materialized (
    select o.id from old o
    cross join lateral (select from messages m where m.id = o.message_id for update skip locked) m
    where o.kind = 'reply'
)
select w.id, o.id is not null and (o.kind <> 'reply' or s.id is not null),
    w.accepted_at > statement_timestamp() - $3::bigint * interval '1 microsecond'
from walked w left join (old o join locked l on l.id = o.id left join said s on s.id = o.id) on o.id = w.id
order by w.id`
	countTasksSQL = oldTasks + `
select w.id, o.id is not null, w.accepted_at > statement_timestamp() - $3::bigint * interval '1 microsecond'
from walked w left join old o on o.id = w.id
order by w.id`

	// The snapshot is of after the locks.
	deleteTasksSQL = `
with doomed as materialized (
    select t.id, t.message_id, t.kind from reply_tasks t
    where t.id = any($1::uuid[])
        and not (t.kind = 'reply' and exists (select from reply_tasks a where a.message_id = t.message_id and a.kind = 'regenerate'))
), asked as (
    delete from task_requests r using doomed d where r.task_id = d.id
), replied as (
    delete from replies r using doomed d where r.task_id = d.id
), tried as (
    delete from attempts a using doomed d where a.task_id = d.id
), later as (
    delete from delayed_handoffs h using doomed d where h.task_id = d.id
), said as (
    delete from messages m using doomed d where m.id = d.message_id and d.kind = 'reply'
)
delete from reply_tasks t using doomed d where t.id = d.id`
)

func (s *Store) sweepTasks(ctx context.Context, c tasks.SweepConfig, out *tasks.Swept) error {
	for range max(maxWalks, c.Limit/walked) {
		if out.Tasks >= c.Limit {
			break
		}
		n := min(walked, c.Limit-out.Tasks)
		var old []uuid.UUID
		var end bool
		err := repeat(ctx, func() error {
			return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
				sql := lockTasksSQL
				if c.DryRun {
					sql = countTasksSQL
				}
				var last uuid.UUID
				if old, last, end, err = look(ctx, tx, sql, out.After, n, c.Tasks); err != nil {
					return err
				}
				if len(old) > 0 && !c.DryRun {
					tag, err := tx.Exec(ctx, deleteTasksSQL, uuidArray(old))
					if err != nil {
						return err
					}
					old = old[:tag.RowsAffected()]
				}
				out.After = last
				return nil
			})
		})
		if err != nil {
			return err
		}
		if out.Tasks += len(old); end {
			out.After = uuid.Nil
			return nil
		}
	}
	out.More = true
	return nil
}

// look looks at the n tasks after one. end says that those behind them are too young, or none.
func look(ctx context.Context, tx pgx.Tx, sql string, after uuid.UUID, n int, age time.Duration) (old []uuid.UUID, last uuid.UUID, end bool, err error) {
	last = after
	rows, err := tx.Query(ctx, sql, after, n, age.Microseconds())
	if err != nil {
		return nil, last, false, err
	}
	seen := 0
	var doomed, young bool
	_, err = pgx.ForEachRow(rows, []any{&last, &doomed, &young}, func() error {
		if seen++; doomed {
			old = append(old, last)
		}
		return nil
	})
	return old, last, seen < n || young, err
}
