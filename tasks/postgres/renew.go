package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// renewLockWait is short: while a renewal waits for one row, the leases of all others of the process go on.
const renewLockWait = 2 * time.Second

const renewHead = `
with input as (
    select * from unnest($1::uuid[], $2::text[], $3::bigint[]) with ordinality as i (task_id, workspace, version, n)
), locked as materialized (
    select i.n, i.version, t.id, t.status, t.assignment_version, t.lease_until
    from input i join reply_tasks t on t.id = i.task_id and t.workspace = i.workspace
    order by t.id for update of t`

const renewTail = `
), clock as materialized (
    select clock_timestamp() as now from (select count(*) from locked) n
), judged as materialized (
    select l.n, l.id, c.now, l.status = 'running' and l.assignment_version = l.version and l.lease_until > c.now as good
    from locked l cross join clock c
), moved as (
    update reply_tasks t set lease_until = j.now + $4::bigint * interval '1 microsecond'
    from judged j where t.id = j.id and j.good
)
select j.n, j.good from judged j`

const (
	renewFreeSQL = renewHead + ` skip locked` + renewTail
	renewHeldSQL = renewHead + renewTail
)

// Renew implements tasks.Store. An assignment whose row somebody holds for longer than two seconds is RenewalHeld, so that
// no other of the batch waits for it.
func (s *Store) Renew(ctx context.Context, lease time.Duration, items []tasks.Assignment) ([]tasks.Renewal, error) {
	out := make([]tasks.Renewal, len(items))
	for i := range out {
		out[i] = tasks.RenewalLost
	}
	err := judged[tasks.Renewal]{
		pool: s.renewals(), free: renewFreeSQL, held: renewHeldSQL, wait: renewLockWait,
		args: func(part []int) []any {
			return []any{
				uuids(items, part, func(a *tasks.Assignment) uuid.UUID { return a.TaskID }),
				texts(items, part, func(a *tasks.Assignment) string { return workspace(a.Workspace) }),
				column(items, part, func(a *tasks.Assignment) int64 { return a.Version }),
				lease.Microseconds(),
			}
		},
		scan: func(rows pgx.Rows) (place int, r tasks.Renewal, err error) {
			var good bool
			err = rows.Scan(&place, &good)
			if r = tasks.RenewalLost; good {
				r = tasks.RenewalKept
			}
			return place, r, err
		},
		alone: func(item int, err error) error {
			if !lockTimeout(err) {
				return err
			}
			s.log.Warn("a task's row is locked by somebody; its lease could not be renewed", "task", items[item].TaskID)
			out[item] = tasks.RenewalHeld
			return nil
		},
	}.run(ctx, indexes(len(items)), out)
	if err != nil {
		return nil, s.wrap(ctx, "renew", err)
	}
	return out, nil
}
