package memory

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// Binding reads what a key of the workspace is bound to. ErrNotFound when it is free.
func (s *Store) Binding(ctx context.Context, workspace, operation, name string) (tasks.Binding, error) {
	var b tasks.Binding
	found := tasks.ErrNotFound
	err := s.transact(ctx, "Binding", func(now time.Time) {
		bound := s.keys[key{workspace, operation, name}]
		if bound == nil || !bound.expires.After(now) {
			return
		}
		b, found = tasks.Binding{TaskID: bound.task, Fingerprint: bound.fingerprint, ExpiresAt: bound.expires}, nil
		if r := s.tasks[bound.task]; r != nil {
			b.PromptTemplateVersion = r.request.PromptTemplateVersion
		}
	})
	if err == nil {
		err = found
	}
	return b, err
}
