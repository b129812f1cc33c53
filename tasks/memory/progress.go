package memory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

var _ tasks.Watched = (*Store)(nil)

// Progress implements tasks.Watched.
func (s *Store) Progress(ctx context.Context, ids []uuid.UUID) ([]tasks.Progress, error) {
	var out []tasks.Progress
	err := s.transact(ctx, "Progress", func(time.Time) {
		told := make(map[uuid.UUID]bool, len(ids))
		for _, id := range ids {
			if r := s.tasks[id]; r != nil && !told[id] {
				told[id] = true
				out = append(out, tasks.Progress{TaskID: id, Workspace: r.Workspace, Status: r.Status, Version: r.Version, Attempts: r.Attempts})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
