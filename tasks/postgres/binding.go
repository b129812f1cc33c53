package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

const bindingSQL = `
select s.task_id, s.fingerprint, s.expires_at, coalesce(r.prompt_template_version, '')
from submissions s left join task_requests r on r.task_id = s.task_id
where s.workspace = $1 and s.operation = $2 and s.key = $3 and s.expires_at > clock_timestamp()`

// Binding reads what a key of the workspace is bound to. ErrNotFound when it is free.
func (s *Store) Binding(ctx context.Context, name, operation, key string) (tasks.Binding, error) {
	var b tasks.Binding
	if text := operation + key; tasks.Clean(text) != text {
		return b, tasks.ErrNotFound // cleaned, they could be others
	}
	var fingerprint []byte
	err := s.pool.QueryRow(ctx, bindingSQL, workspace(name), operation, key).
		Scan(&b.TaskID, &fingerprint, &b.ExpiresAt, &b.PromptTemplateVersion)
	if errors.Is(err, pgx.ErrNoRows) {
		return tasks.Binding{}, tasks.ErrNotFound
	}
	if err != nil {
		return tasks.Binding{}, s.wrap(ctx, "read binding", err)
	}
	copy(b.Fingerprint[:], fingerprint)
	b.ExpiresAt = b.ExpiresAt.UTC()
	return b, nil
}
