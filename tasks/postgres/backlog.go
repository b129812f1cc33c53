package postgres

import "context"

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
