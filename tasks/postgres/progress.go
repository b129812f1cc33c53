package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

var _ tasks.Watched = (*Store)(nil)

const progressSQL = `select id, workspace, status, assignment_version, attempts from reply_tasks where id = any($1::uuid[])`

// Progress implements tasks.Watched.
func (s *Store) Progress(ctx context.Context, ids []uuid.UUID) ([]tasks.Progress, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, progressSQL, uuidArray(ids))
	var out []tasks.Progress
	if err == nil {
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[tasks.Progress])
	}
	return out, s.wrap(ctx, "read progress", err)
}
