package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

const cancelLockWait = 10 * time.Second

// The lock is a statement of its own: an attempt that a claim has begun meanwhile is only seen by one that begins under it.
const cancelLockSQL = `select from reply_tasks where id = $2 and workspace = $1 for update`

const cancelSQL = `
with locked as materialized (
    select t.id, t.workspace, t.status, t.assignment_version, t.reserved_picousd, t.reserved_on from reply_tasks t where t.id = $2 and t.workspace = $1 for update` + cancelGone + `
), clock as materialized (
    select clock_timestamp() as now from (select count(*) from locked) n
), moved as (
    update reply_tasks t set status = 'cancelled', lease_until = null, finished_at = c.now
    from locked l cross join clock c
    where t.id = l.id and l.status in ('queued', 'running')
    returning t.id
)` + cancelCharged + cancelSpend + `
select exists (select from locked), exists (select from moved)`

// Cancel implements tasks.Store. The running attempt stays in the ledger: its late settle is refused, and says there
// what the call cost.
func (s *Store) Cancel(ctx context.Context, name string, id uuid.UUID) (tasks.Task, bool, error) {
	var found, cancelled bool
	err := repeat(ctx, func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockWaitSQL, milliseconds(cancelLockWait)); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, cancelLockSQL, workspace(name), id); err != nil {
				return err
			}
			return tx.QueryRow(ctx, cancelSQL, workspace(name), id).Scan(&found, &cancelled)
		})
	})
	if err != nil {
		return tasks.Task{}, false, s.wrap(ctx, "cancel", err)
	}
	if !found {
		return tasks.Task{}, false, tasks.ErrNotFound
	}
	// The task is terminal now, so that what is read after the transaction is what the transaction left.
	task, err := s.Task(ctx, name, id)
	return task, cancelled, err
}
