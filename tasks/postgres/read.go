package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// What every reader of a task selects. The cost is unknown while an attempt that may have been charged has no amount: one
// that ended without a wire request was not charged (I7).
const taskColumns = `
select t.id, t.workspace, t.conversation, t.message_id, t.kind, t.regenerates, t.status, t.accepted_at, t.available_at,
    t.deadline, t.finished_at, t.attempts, t.max_attempts, t.interruptions, t.max_interruptions, t.assignment_version,
    t.lease_until, coalesce(t.worker, ''), coalesce(r.model, ''), coalesce(r.document_id, ''),
    coalesce(r.document_version, ''), t.on_ambiguous, r.metadata, coalesce(r.prompt_template, ''), coalesce(r.prompt_template_version, ''),
    p.id, p.text, p.model, p.finish_reason, p.attempt, p.saved_at, p.message,
    t.failure_class, t.failure_message, t.failure_attempt, coalesce(c.history[1][1], 0), coalesce(c.history[1][2], 0),
    case when c.unpriced = 0 then c.picousd end, c.input_tokens, c.output_tokens, c.unheard
from `

const taskJoins = ` t
left join task_requests r on r.task_id = t.id
left join replies p on p.task_id = t.id
cross join lateral (
    select coalesce(sum(a.picousd), 0)::bigint as picousd, coalesce(sum(a.input_tokens), 0)::bigint as input_tokens,
        coalesce(sum(a.output_tokens), 0)::bigint as output_tokens,
        count(*) filter (where a.picousd is null and (a.ended_at is null or a.wire_requests > 0)) as unpriced,
        count(*) filter (where a.picousd is null and (a.ended_at is null or a.wire_requests > 0)
            and a.input_tokens is null and a.output_tokens is null) as unheard,
        (array_agg(array[a.history_turns, a.history_dropped] order by a.assignment_version desc)
            filter (where a.history_turns is not null)) as history
    from attempts a where a.task_id = t.id
) c`

const taskSQL = taskColumns + `reply_tasks` + taskJoins + `
where t.id = $2 and t.workspace = $1`

// Task implements tasks.Store.
func (s *Store) Task(ctx context.Context, name string, id uuid.UUID) (tasks.Task, error) {
	rows, err := s.pool.Query(ctx, taskSQL, workspace(name), id)
	if err != nil {
		return tasks.Task{}, s.wrap(ctx, "read task", err)
	}
	task, err := pgx.CollectExactlyOneRow(rows, scanTask)
	if errors.Is(err, pgx.ErrNoRows) {
		return tasks.Task{}, tasks.ErrNotFound
	}
	if err != nil {
		return tasks.Task{}, s.wrap(ctx, "read task", err)
	}
	return task, nil
}

// A page is read backwards from the end of the index that fits what the filter names: of the conversation, of the
// workspace, of what is unfinished, or of all tasks. What the index does not have is a filter on the way. The conditions
// of an index stand alone, without an "or": the planner would take the rows for so few that it sorts all of them.
const (
	pageHead = taskColumns + `(
    select * from reply_tasks
    where id < $1::uuid and ($3::text = '' or status = $3)`
	pageTail = `
    order by id desc limit $2
)` + taskJoins + `
order by t.id desc`

	conversationPageSQL = pageHead + ` and workspace = $4::text and conversation = $5::text` + pageTail
	workspacePageSQL    = pageHead + ` and workspace = $4::text` + pageTail
	unfinishedPageSQL   = pageHead + ` and finished_at is null and ($4::text = '' or workspace = $4) and ($5::text = '' or conversation = $5)` + pageTail
	allPageSQL          = pageHead + ` and ($4::text = '' or conversation = $4)` + pageTail
)

// Tasks implements tasks.Store.
func (s *Store) Tasks(ctx context.Context, f tasks.Filter) ([]tasks.Task, error) {
	name, conversation := workspace(f.Workspace), tasks.Clean(f.Conversation)
	if name != f.Workspace || conversation != f.Conversation {
		return nil, nil // names that cannot be stored; cleaned, they would be others', or none and so all
	}
	before := f.Before
	if before == uuid.Nil {
		before = uuid.Max
	}
	sql, args := allPageSQL, []any{before, page(f.Limit), tasks.Clean(string(f.Status))}
	switch {
	case name != "" && conversation != "":
		sql, args = conversationPageSQL, append(args, name, conversation)
	case f.Status == tasks.StatusQueued || f.Status == tasks.StatusRunning:
		sql, args = unfinishedPageSQL, append(args, name, conversation)
	case name != "":
		sql, args = workspacePageSQL, append(args, name)
	default:
		args = append(args, conversation)
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, s.wrap(ctx, "read tasks", err)
	}
	list, err := pgx.CollectRows(rows, scanTask)
	if err != nil {
		return nil, s.wrap(ctx, "read tasks", err)
	}
	return list, nil
}

const finishedSQL = `select id from reply_tasks where id = any($1::uuid[]) and finished_at is not null`

// Finished implements tasks.Store.
func (s *Store) Finished(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, finishedSQL, uuidArray(ids))
	if err != nil {
		return nil, s.wrap(ctx, "read finished tasks", err)
	}
	done, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, s.wrap(ctx, "read finished tasks", err)
	}
	return done, nil
}

// A task without attempts is one row of nulls; no row is no task.
const attemptsSQL = `
select a.attempt, a.assignment_version, a.worker, a.provider, a.started_at, a.ended_at, a.outcome, a.failure_class,
    a.wire_requests, a.provider_request_id, a.model, a.input_tokens, a.output_tokens, a.picousd,
    a.cached_input_tokens, a.reasoning_tokens, a.price_version,
    a.recovered_version, e.attempt, a.history_turns, a.history_dropped
from reply_tasks t left join attempts a on a.task_id = t.id
left join attempts e on e.task_id = a.task_id and e.assignment_version = a.recovered_version
where t.id = $2 and t.workspace = $1
order by a.assignment_version`

// Attempts implements tasks.Store.
func (s *Store) Attempts(ctx context.Context, name string, id uuid.UUID) ([]tasks.Attempt, error) {
	rows, err := s.pool.Query(ctx, attemptsSQL, workspace(name), id)
	if err != nil {
		return nil, s.wrap(ctx, "read attempts", err)
	}
	list, err := pgx.CollectRows(rows, scanAttempt)
	if err != nil {
		return nil, s.wrap(ctx, "read attempts", err)
	}
	switch {
	case len(list) == 0:
		return nil, tasks.ErrNotFound
	case list[0].Version == 0:
		return nil, nil
	}
	return list, nil
}

const conversationSQL = `
select m.id, m.seq, m.content, m.created_at, p.id, p.task_id, p.text, p.model, p.finish_reason, p.attempt, p.saved_at,
    p.message, r.prompt_template_version
from (
    select * from messages where workspace = $1 and conversation = $2 and seq > $3 order by seq limit $4
) m left join replies p on p.message_id = m.id
left join task_requests r on r.task_id = p.task_id
order by m.seq, p.saved_at, p.id`

// Conversation implements tasks.Store.
func (s *Store) Conversation(ctx context.Context, name, conversation string, after int64, limit int) ([]tasks.Message, error) {
	if tasks.Clean(conversation) != conversation {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, conversationSQL, workspace(name), conversation, after, page(limit))
	if err != nil {
		return nil, s.wrap(ctx, "read conversation", err)
	}
	defer rows.Close()
	var list []tasks.Message
	for rows.Next() {
		var m tasks.Message
		var p nullReply
		if err := rows.Scan(&m.ID, &m.Seq, &m.Content, &m.CreatedAt,
			&p.id, &p.task, &p.text, &p.model, &p.finish, &p.attempt, &p.saved, &p.message, &p.template); err != nil {
			return nil, s.wrap(ctx, "read conversation", err)
		}
		m.CreatedAt = m.CreatedAt.UTC()
		if n := len(list); n == 0 || list[n-1].ID != m.ID {
			list = append(list, m)
		}
		if reply := p.reply(); reply != nil {
			last := &list[len(list)-1]
			last.Replies = append(last.Replies, *reply)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, s.wrap(ctx, "read conversation", err)
	}
	return list, nil
}

func scanTask(row pgx.CollectableRow) (tasks.Task, error) {
	var t tasks.Task
	var p nullReply
	var regenerates *uuid.UUID
	var finished, lease *time.Time
	var class, message *string
	var attempt *int
	err := row.Scan(&t.ID, &t.Workspace, &t.Conversation, &t.MessageID, &t.Kind, &regenerates, &t.Status, &t.AcceptedAt, &t.AvailableAt,
		&t.Deadline, &finished, &t.Attempts, &t.MaxAttempts, &t.Interruptions, &t.MaxInterruptions, &t.Version,
		&lease, &t.Worker, &t.Model, &t.Document.ID,
		&t.Document.Version, &t.OnAmbiguous, &t.Metadata, &t.PromptTemplate, &t.PromptTemplateVersion,
		&p.id, &p.text, &p.model, &p.finish, &p.attempt, &p.saved, &p.message,
		&class, &message, &attempt, &t.HistoryTurns, &t.HistoryDropped,
		&t.Cost.PicoUSD, &t.Cost.InputTokens, &t.Cost.OutputTokens, &t.Cost.UnknownAttempts)
	if err != nil {
		return t, fmt.Errorf("task %s: %w", t.ID, err)
	}
	t.AcceptedAt, t.AvailableAt, t.Deadline = t.AcceptedAt.UTC(), t.AvailableAt.UTC(), t.Deadline.UTC()
	t.FinishedAt, t.LeaseUntil = utc(finished), utc(lease)
	t.Regenerates = value(regenerates)
	p.task, p.template = &t.ID, &t.PromptTemplateVersion
	t.Reply = p.reply()
	if class != nil {
		t.Failure = &tasks.Failure{Class: *class, Message: value(message), Attempt: value(attempt)}
	}
	return t, nil
}

func scanAttempt(row pgx.CollectableRow) (tasks.Attempt, error) {
	var a tasks.Attempt
	var number, wire, recoveredAttempt, turns, dropped *int
	var version, recovered *int64
	var worker, provider, outcome, class, request, model, price *string
	var started, ended *time.Time
	err := row.Scan(&number, &version, &worker, &provider, &started, &ended, &outcome, &class,
		&wire, &request, &model, &a.InputTokens, &a.OutputTokens, &a.PicoUSD,
		&a.CachedInputTokens, &a.ReasoningTokens, &price, &recovered, &recoveredAttempt, &turns, &dropped)
	a.Number, a.Version, a.Worker, a.Provider = value(number), value(version), value(worker), value(provider)
	a.StartedAt, a.EndedAt, a.Outcome, a.FailureClass = utc(started), utc(ended), tasks.AttemptOutcome(value(outcome)), value(class)
	a.WireRequests, a.ProviderRequestID, a.Model, a.PriceVersion = value(wire), value(request), value(model), value(price)
	a.Recovered, a.RecoveredAttempt, a.HistoryTurns, a.HistoryDropped = value(recovered), value(recoveredAttempt), value(turns), value(dropped)
	return a, err
}

// nullReply is the reply of a left join.
type nullReply struct {
	id, task            *uuid.UUID
	text, model, finish *string
	message             *string
	template            *string // the version of the task's
	attempt             *int
	saved               *time.Time
}

func (p nullReply) reply() *tasks.Reply {
	if p.id == nil {
		return nil
	}
	return &tasks.Reply{
		ID: *p.id, TaskID: value(p.task), Text: value(p.text), Model: value(p.model), FinishReason: value(p.finish),
		Attempt: value(p.attempt), SavedAt: utc(p.saved), Message: value(p.message), PromptTemplateVersion: value(p.template),
	}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// page is how many entries a page has when its reader asked for limit.
func page(limit int) int {
	if limit <= 0 {
		return 100
	}
	return min(limit, 1000)
}
