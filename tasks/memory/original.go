package memory

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Original implements tasks.Store.
func (s *Store) Original(ctx context.Context, workspace string, id uuid.UUID) (tasks.Submission, error) {
	return tasks.Submission{}, errors.ErrUnsupported
}

// Progress implements tasks.Watched.
func (s *Store) Progress(ctx context.Context, ids []uuid.UUID) ([]tasks.Progress, error) {
	return nil, errors.ErrUnsupported
}
