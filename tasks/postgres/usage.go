package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// idSlack is by how much the clock that a task's id was made by may differ from the database's.
const idSlack = time.Hour

// What every sum over the ledger reads: a stretch of its primary key, which is in the order of time, and of that what
// began in the period. Attempts without a usage are those that were refused before they cost anything, those that have
// brought another one's answer, and those of which nothing is known.
const usagePeriod = `
from attempts a
where a.task_id >= $1 and a.task_id < $2 and a.started_at >= $3 and a.started_at < $4 and ($5::text = '' or a.provider = $5::text)`

const (
	unknownUsage = `(a.input_tokens is null and (a.ended_at is null or a.wire_requests > 0))`
	knownUsage   = `(a.input_tokens > 0 or a.output_tokens > 0)`
)

const dayUsageSQL = `
select (a.started_at at time zone 'utc')::date as day, a.model, count(*) filter (where ` + knownUsage + `),
    least(coalesce(sum(a.input_tokens), 0), 9000000000000000000)::bigint,
    least(coalesce(sum(a.cached_input_tokens), 0), 9000000000000000000)::bigint,
    least(coalesce(sum(a.output_tokens), 0), 9000000000000000000)::bigint,
    least(coalesce(sum(a.picousd), 0), 9000000000000000000)::bigint,
    count(*) filter (where ` + knownUsage + ` and a.picousd is null), count(*) filter (where ` + unknownUsage + `)` +
	usagePeriod + ` and (` + knownUsage + ` or ` + unknownUsage + `)
group by day, a.model order by day, a.model`

// UsageByDay sums what was used in the period, by day and model.
func (s *Store) UsageByDay(ctx context.Context, p tasks.Period) ([]tasks.DayUsage, error) {
	var out []tasks.DayUsage
	err := s.unhurried(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, dayUsageSQL, periodArgs(p)...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[tasks.DayUsage])
		return err
	})
	if err != nil {
		return nil, s.wrap(ctx, "sum the ledger", err)
	}
	for i := range out {
		out[i].Day = out[i].Day.UTC()
	}
	return out, nil
}

const usageSQL = `
select a.task_id, a.attempt, a.started_at, a.model, coalesce(a.provider_request_id, ''), coalesce(a.input_tokens, 0),
    coalesce(a.cached_input_tokens, 0), coalesce(a.output_tokens, 0), a.picousd` + usagePeriod + ` and ` + knownUsage

// EachUsage calls do with each attempt of the period of which a usage was reported, in no order. An error of do ends it.
func (s *Store) EachUsage(ctx context.Context, p tasks.Period, do func(tasks.AttemptUsage) error) error {
	var failed error
	err := s.unhurried(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, usageSQL, periodArgs(p)...)
		if err != nil {
			return err
		}
		return forEachUsage(rows, func(a tasks.AttemptUsage) error {
			failed = do(a)
			return failed
		})
	})
	if failed != nil {
		return failed
	}
	return s.wrap(ctx, "read the ledger", err)
}

const unknownUsageSQL = `
select a.task_id, a.attempt, a.started_at, a.model, coalesce(a.provider_request_id, ''), 0::bigint, 0::bigint, 0::bigint,
    null::bigint` + usagePeriod + ` and ` + unknownUsage + `
order by a.task_id, a.assignment_version limit $6`

// UnknownUsage lists attempts of the period that may have been charged, and of which nothing is known, oldest tasks first.
func (s *Store) UnknownUsage(ctx context.Context, p tasks.Period, limit int) ([]tasks.AttemptUsage, error) {
	var out []tasks.AttemptUsage
	err := s.unhurried(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, unknownUsageSQL, append(periodArgs(p), limit)...)
		if err != nil {
			return err
		}
		return forEachUsage(rows, func(a tasks.AttemptUsage) error {
			out = append(out, a)
			return nil
		})
	})
	return out, s.wrap(ctx, "read unknown attempts", err)
}

func forEachUsage(rows pgx.Rows, do func(tasks.AttemptUsage) error) error {
	var a tasks.AttemptUsage
	_, err := pgx.ForEachRow(rows, []any{&a.TaskID, &a.Attempt, &a.StartedAt, &a.Model, &a.RequestID,
		&a.InputTokens, &a.CachedInputTokens, &a.OutputTokens, &a.PicoUSD}, func() error {
		one := a
		one.StartedAt = one.StartedAt.UTC()
		if a.PicoUSD != nil {
			amount := *a.PicoUSD
			one.PicoUSD = &amount
		}
		return do(one)
	})
	return err
}

const noTimeoutSQL = `select set_config('statement_timeout', '0', true)`

// unhurried runs do in a transaction whose statements may take as long as ctx lets them: a month of a ledger is read in
// more time than the work of a second should take.
func (s *Store) unhurried(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, noTimeoutSQL); err != nil {
			return err
		}
		return do(tx)
	})
}

func periodArgs(p tasks.Period) []any {
	return []any{firstID(p.From.Add(-p.Reach - idSlack)), firstID(p.To.Add(idSlack)), p.From, p.To, tasks.Clean(p.Provider)}
}

// firstID is smaller than every UUIDv7 made at t or later, and greater than all before.
func firstID(t time.Time) uuid.UUID {
	var id uuid.UUID
	ms := uint64(max(0, t.UnixMilli()))
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}
