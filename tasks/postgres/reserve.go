package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/tasks"
)

// accountsHeld: somebody has held one of the accounts of these workspaces for too long.
type accountsHeld struct {
	caps map[string]int64
	err  error
}

func (h *accountsHeld) Error() string {
	return "the budget of a workspace is locked by somebody: " + h.err.Error()
}

// refuse says so of the workspaces' items, and returns the others of the part.
func (h *accountsHeld) refuse(items []tasks.Submission, part []int, out []tasks.Submitted) []int {
	return slices.DeleteFunc(slices.Clone(part), func(i int) bool {
		_, capped := h.caps[items[i].Workspace]
		if capped {
			out[i] = tasks.Submitted{Err: fmt.Errorf("%w: %w", tasks.ErrUnavailable, h)}
		}
		return capped
	})
}

const capsSQL = `select workspace, per_day_picousd from budgets where workspace = any($1::text[])`

// The accounts of today are locked in the order of their names, so that two batches cannot deadlock. Today is one day for
// all statements of a transaction.
const (
	openDaysSQL = `
insert into budget_days (workspace, day)
select w, (transaction_timestamp() at time zone 'utc')::date from unnest($1::text[]) w order by w
on conflict do nothing`
	lockDaysSQL = `
select workspace, day, spent, reserved from budget_days
where workspace = any($1::text[]) and day = (transaction_timestamp() at time zone 'utc')::date
order by workspace for update`
	// foldSQL is a statement of its own: only one that begins under the lock sees all that was there when it was got.
	foldSQL = `
with folded as (
    delete from budget_changes c
    where c.workspace = any($1::text[]) and c.day = (transaction_timestamp() at time zone 'utc')::date
    returning c.workspace, c.spent, c.reserved
)
select workspace, greatest(least(sum(spent), 9000000000000000000), -9000000000000000000)::bigint,
    greatest(least(sum(reserved), 9000000000000000000), -9000000000000000000)::bigint
from folded group by workspace`
	chargeDaysSQL = `
update budget_days d set spent = i.spent, reserved = i.reserved
from unnest($1::text[], $2::date[], $3::bigint[], $4::bigint[]) as i (workspace, day, spent, reserved)
where d.workspace = i.workspace and d.day = i.day`
	unbindSQL = `
delete from submissions s using unnest($1::text[], $2::text[], $3::text[]) as i (workspace, operation, key)
where s.workspace = i.workspace and s.operation = i.operation and s.key = i.key`
)

// queueCaps adds the question for caps to the transaction's first batch.
func queueCaps(batch *pgx.Batch, items []tasks.Submission, first []int, caps *map[string]int64) {
	names := texts(items, first, func(s *tasks.Submission) string { return s.Workspace })
	batch.Queue(capsSQL, slices.Compact(names)).Query(func(rows pgx.Rows) error {
		var name string
		var perDay int64
		_, err := pgx.ForEachRow(rows, []any{&name, &perDay}, func() error {
			if *caps == nil {
				*caps = make(map[string]int64)
			}
			(*caps)[name] = perDay
			return nil
		})
		return err
	})
}

// reservation is what a transaction takes from the budgets.
type reservation struct {
	accounts []*tasks.Budgeted // under their locks, by workspace
	of       map[string]*tasks.Budgeted
	refused  []int // items whose keys are to be free again
}

// day is the parameter for the day whose budget an item's amount is taken from.
func (r *reservation) day(workspace string) *time.Time {
	if a := r.of[workspace]; a != nil {
		return &a.Day
	}
	return nil
}

// reserve judges the items of workspaces that have caps, in their order, and returns those that may be stored.
func reserve(ctx context.Context, conn *pgxpool.Conn, items []tasks.Submission, won []int, caps map[string]int64, out []tasks.Submitted) ([]int, reservation, error) {
	r := reservation{of: make(map[string]*tasks.Budgeted)}
	var names []string
	for _, i := range won {
		if _, capped := caps[items[i].Workspace]; capped {
			names = append(names, items[i].Workspace)
		}
	}
	if len(names) == 0 {
		return won, r, nil
	}
	slices.Sort(names)
	if err := r.open(ctx, conn, slices.Compact(names), caps); err != nil {
		if lockTimeout(err) {
			err = &accountsHeld{caps, err}
		}
		return nil, r, err
	}
	kept := make([]int, 0, len(won))
	for _, i := range won {
		if a := r.of[items[i].Workspace]; a != nil {
			if err := a.Take(items[i].Reserve); err != nil {
				out[i] = tasks.Submitted{Err: err}
				r.refused = append(r.refused, i)
				continue
			}
		}
		kept = append(kept, i)
	}
	return kept, r, nil
}

// open locks the accounts and reads them.
func (r *reservation) open(ctx context.Context, conn *pgxpool.Conn, names []string, caps map[string]int64) error {
	var batch pgx.Batch
	batch.Queue(lockWaitSQL, milliseconds(submitLockWait))
	batch.Queue(openDaysSQL, textArray(names))
	batch.Queue(lockDaysSQL, textArray(names)).Query(func(rows pgx.Rows) error {
		var a tasks.Budgeted
		_, err := pgx.ForEachRow(rows, []any{&a.Workspace, &a.Day, &a.Spent, &a.Reserved}, func() error {
			locked := a
			locked.PerDay = caps[a.Workspace]
			r.accounts, r.of[a.Workspace] = append(r.accounts, &locked), &locked
			return nil
		})
		return err
	})
	batch.Queue(foldSQL, textArray(names)).Query(func(rows pgx.Rows) error {
		var name string
		var spent, reserved int64
		_, err := pgx.ForEachRow(rows, []any{&name, &spent, &reserved}, func() error {
			a := r.of[name]
			a.Spent, a.Reserved = tasks.AddAmounts(a.Spent, spent), tasks.AddAmounts(a.Reserved, reserved)
			return nil
		})
		return err
	})
	return conn.SendBatch(ctx, &batch).Close()
}

// queue adds to the transaction's last batch what the reservation changes.
func (r *reservation) queue(batch *pgx.Batch, items []tasks.Submission) {
	type item = tasks.Submission
	type day = tasks.Budgeted
	if len(r.accounts) > 0 {
		all := indexes(len(r.accounts))
		batch.Queue(chargeDaysSQL,
			texts(r.accounts, all, func(a **day) string { return (*a).Workspace }),
			column(r.accounts, all, func(a **day) time.Time { return (*a).Day }),
			column(r.accounts, all, func(a **day) int64 { return (*a).Spent }),
			column(r.accounts, all, func(a **day) int64 { return (*a).Reserved }),
		)
	}
	if len(r.refused) > 0 {
		batch.Queue(unbindSQL,
			texts(items, r.refused, func(s *item) string { return s.Workspace }),
			texts(items, r.refused, func(s *item) string { return s.Operation }),
			texts(items, r.refused, func(s *item) string { return s.Key }),
		)
	}
}
