package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

var _ tasks.Budgets = (*Store)(nil)

// A workspace's day has one row, which submissions lock one after another. What becomes of reservations later is not
// written there, since a claim or a settle must wait for no submission, and a batch of them for no other batch: it is
// inserted into budget_changes, and the next submission adds it up, under the row's lock. A change that has not been seen
// yet leaves more reserved than is needed, never less.

const (
	setBudgetSQL = `
insert into budgets (workspace, per_day_picousd, updated_at) values ($1, $2, clock_timestamp())
on conflict (workspace) do update set per_day_picousd = excluded.per_day_picousd, updated_at = excluded.updated_at`
	removeBudgetSQL = `delete from budgets where workspace = $1`
)

// SetBudget implements tasks.Budgets. ErrInvalid when the name or the amount is none.
func (s *Store) SetBudget(ctx context.Context, workspace string, perDay *int64) error {
	if err := tasks.CheckBudget(workspace, perDay); err != nil {
		return err
	}
	sql, args := removeBudgetSQL, []any{workspace}
	if perDay != nil {
		sql, args = setBudgetSQL, append(args, *perDay)
	}
	_, err := s.pool.Exec(ctx, sql, args...)
	return s.wrap(ctx, "set budget", err)
}

const budgetsSQL = `
select b.workspace, b.per_day_picousd, today.day,
    least(coalesce(d.spent, 0) + coalesce(c.spent, 0), 9000000000000000000)::bigint,
    (coalesce(d.reserved, 0) + coalesce(c.reserved, 0))::bigint, b.updated_at
from (select (statement_timestamp() at time zone 'utc')::date as day) today cross join budgets b
left join budget_days d on d.workspace = b.workspace and d.day = today.day
left join lateral (
    select sum(c.spent) as spent, sum(c.reserved) as reserved from budget_changes c
    where c.workspace = b.workspace and c.day = today.day
) c on true
order by b.workspace`

// Budgets implements tasks.Budgets.
func (s *Store) Budgets(ctx context.Context) ([]tasks.Budgeted, error) {
	rows, err := s.pool.Query(ctx, budgetsSQL)
	var out []tasks.Budgeted
	if err == nil {
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[tasks.Budgeted])
	}
	if err != nil {
		return nil, s.wrap(ctx, "read budgets", err)
	}
	for i := range out {
		out[i].Day, out[i].UpdatedAt = out[i].Day.UTC(), out[i].UpdatedAt.UTC()
	}
	return out, nil
}

const (
	oldDays = `
    select workspace, day from budget_days
    where day < ((statement_timestamp() - $1::bigint * interval '1 microsecond') at time zone 'utc')::date
    order by workspace, day limit $2`
	oldChanges = `
    select ctid from budget_changes
    where day < ((statement_timestamp() - $1::bigint * interval '1 microsecond') at time zone 'utc')::date
    order by day limit $2`
)

const (
	sweepDaysSQL = `
delete from budget_days where (workspace, day) in (` + oldDays + ` for update skip locked)`
	countDaysSQL = `
select count(*) from (` + oldDays + `) x`
	sweepChangesSQL = `
delete from budget_changes where ctid = any(array(` + oldChanges + ` for update skip locked))`
	countChangesSQL = `
select count(*) from (` + oldChanges + `) x`
)

// SweepBudgets deletes up to limit accounts of days, and as many changes of them, that ended longer ago than olderThan,
// and returns how many. The ledger keeps what was spent; a task that is still under way may change an account that is
// gone, which is nobody's any more.
func (s *Store) SweepBudgets(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	swept := 0
	for _, sql := range []string{sweepDaysSQL, sweepChangesSQL} {
		tag, err := s.pool.Exec(ctx, sql, olderThan.Microseconds(), limit)
		if err != nil {
			return swept, s.wrap(ctx, "sweep budgets", err)
		}
		swept += int(tag.RowsAffected())
	}
	return swept, nil
}
