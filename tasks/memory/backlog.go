package memory

import (
	"context"
	"time"
)

// Unfinished counts the tasks that are not finished, up to most.
func (s *Store) Unfinished(ctx context.Context, most int) (n int, err error) {
	err = s.transact(ctx, "Unfinished", func(time.Time) {
		for _, r := range s.tasks {
			if !r.Status.Terminal() && n < most {
				n++
			}
		}
	})
	return n, err
}

// UnfinishedOf counts the tasks of a workspace that are not finished, up to most.
func (s *Store) UnfinishedOf(ctx context.Context, workspace string, most int) (n int, err error) {
	err = s.transact(ctx, "UnfinishedOf", func(time.Time) {
		for _, r := range s.tasks {
			if r.Workspace == workspace && !r.Status.Terminal() && n < most {
				n++
			}
		}
	})
	return n, err
}
