package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

const originalSQL = `
select t.workspace, t.conversation, t.message_id, t.kind, t.regenerates, t.on_ambiguous, t.max_attempts, t.max_interruptions,
    t.deadline - t.accepted_at, m.content, r.model, r.system, r.prompt_template, r.prompt_template_version, r.document_id,
    r.document_version, r.temperature, r.max_output_tokens, r.chat_messages, r.chat_params, r.metadata
from reply_tasks t
join messages m on m.id = t.message_id and m.workspace = t.workspace
join task_requests r on r.task_id = t.id
where t.id = $2 and t.workspace = $1`

// Original implements tasks.Store.
func (s *Store) Original(ctx context.Context, name string, id uuid.UUID) (tasks.Submission, error) {
	rows, err := s.pool.Query(ctx, originalSQL, workspace(name), id)
	var o tasks.Submission
	if err == nil {
		o, err = pgx.CollectExactlyOneRow(rows, scanOriginal)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return tasks.Submission{}, tasks.ErrNotFound
	}
	return o, s.wrap(ctx, "read what a task was asked", err)
}

func scanOriginal(row pgx.CollectableRow) (o tasks.Submission, err error) {
	var regenerates *uuid.UUID
	var messages, params *string
	r := &o.Request
	err = row.Scan(&o.Workspace, &o.Conversation, &o.MessageID, &o.Kind, &regenerates, &o.OnAmbiguous, &o.MaxAttempts, &o.MaxInterruptions,
		&o.DeadlineAfter, &r.Content, &r.Model, &r.System, &r.PromptTemplate, &r.PromptTemplateVersion, &r.Document.ID,
		&r.Document.Version, &r.Temperature, &r.MaxOutputTokens, &messages, &params, &o.Metadata)
	o.Regenerates, r.Chat = value(regenerates), chat(messages, params)
	return o, err
}

// chat is what was stored of it.
func chat(messages, params *string) *tasks.Chat {
	if messages == nil {
		return nil
	}
	c := &tasks.Chat{Messages: json.RawMessage(*messages)}
	if params != nil {
		c.Params = json.RawMessage(*params)
	}
	return c
}
