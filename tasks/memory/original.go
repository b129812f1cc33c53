package memory

import (
	"context"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Original implements tasks.Store.
func (s *Store) Original(ctx context.Context, workspace string, id uuid.UUID) (tasks.Submission, error) {
	var o tasks.Submission
	found := tasks.ErrNotFound
	err := s.transact(ctx, "Original", func(time.Time) {
		r := s.find(workspace, id)
		if r == nil {
			return
		}
		found = nil
		o = tasks.Submission{
			Workspace: r.Workspace, Conversation: r.Conversation, MessageID: r.MessageID, Kind: r.Kind, Regenerates: r.Regenerates,
			Request: clean(r.request), OnAmbiguous: r.OnAmbiguous, MaxAttempts: r.MaxAttempts, MaxInterruptions: r.MaxInterruptions,
			DeadlineAfter: r.Deadline.Sub(r.AcceptedAt), Metadata: maps.Clone(r.Metadata),
		}
	})
	if err == nil {
		err = found
	}
	return o, err
}
