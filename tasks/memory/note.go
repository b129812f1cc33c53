package memory

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/tasks"
)

// Note implements tasks.Store.
func (s *Store) Note(ctx context.Context, items []tasks.Note) error { return errors.ErrUnsupported }

// Histories implements tasks.Store.
func (s *Store) Histories(ctx context.Context, limits tasks.HistoryLimits, items []*tasks.Work) ([]tasks.History, error) {
	return make([]tasks.History, len(items)), nil
}
