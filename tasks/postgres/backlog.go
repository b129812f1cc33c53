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
