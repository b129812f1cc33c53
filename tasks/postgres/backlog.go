package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// Along the index of unfinished tasks, which is as long as the backlog.
const unfinishedSQL = `
select count(*) from (select from reply_tasks where finished_at is null limit $1) t`

// Unfinished counts the tasks that are not finished, up to most.
func (s *Store) Unfinished(ctx context.Context, most int) (int, error) {
	var n int
	err := s.pool.QueryRow(ctx, unfinishedSQL, most).Scan(&n)
	return n, s.wrap(ctx, "count unfinished tasks", err)
}

const unfinishedOfSQL = `
select count(*) from (select from reply_tasks where workspace = $1 and finished_at is null limit $2) t`

// UnfinishedOf counts the tasks of a workspace that are not finished, up to most.
func (s *Store) UnfinishedOf(ctx context.Context, name string, most int) (int, error) {
	var n int
	err := s.pool.QueryRow(ctx, unfinishedOfSQL, workspace(name), most).Scan(&n)
	return n, s.wrap(ctx, "count the unfinished tasks of a workspace", err)
}

const unfinishedByStatusSQL = `
select status, count(*) from (select status from reply_tasks where finished_at is null limit $1) t group by status`

// UnfinishedByStatus is Unfinished by status. Those that it counts none of are absent.
func (s *Store) UnfinishedByStatus(ctx context.Context, most int) (map[tasks.Status]int, error) {
	counts := make(map[tasks.Status]int)
	rows, err := s.pool.Query(ctx, unfinishedByStatusSQL, most)
	if err == nil {
		var status tasks.Status
		var n int
		_, err = pgx.ForEachRow(rows, []any{&status, &n}, func() error {
			counts[status] = n
			return nil
		})
	}
	return counts, s.wrap(ctx, "count unfinished tasks by status", err)
}
