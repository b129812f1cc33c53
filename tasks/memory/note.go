package memory

import (
	"context"
	"slices"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// Note implements tasks.Store.
func (s *Store) Note(ctx context.Context, items []tasks.Note) error {
	return s.transact(ctx, "Note", func(time.Time) {
		for _, item := range items {
			r := s.find(item.Workspace, item.TaskID)
			if r == nil {
				continue
			}
			a := r.attempt(item.Version)
			if a == nil || !a.EndedAt.IsZero() {
				continue
			}
			if ref := tasks.Clean(item.Ref); ref != "" {
				a.ref = ref
			}
			if item.Request != nil {
				a.request = slices.Clone(item.Request)
			}
		}
	})
}
