package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Submit implements tasks.Store.
func (s *Store) Submit(ctx context.Context, items []tasks.Submission) ([]tasks.Submitted, error) {
	out := make([]tasks.Submitted, len(items))
	err := s.transact(ctx, "Submit", func(now time.Time) {
		for i, item := range items {
			out[i] = s.submit(item, now)
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) submit(item tasks.Submission, now time.Time) tasks.Submitted {
	if err := item.Check(); err != nil {
		return tasks.Submitted{Err: err}
	}
	key := key{item.Workspace, item.Operation, item.Key}
	old := s.keys[key]
	if old != nil && old.task == item.TaskID { // the caller's own, whose acknowledgement was lost
		r := s.tasks[old.task]
		return tasks.Submitted{TaskID: r.ID, AcceptedAt: r.AcceptedAt, Deadline: r.Deadline, ExpiresAt: old.expires}
	}
	if old != nil && old.expires.After(now) {
		if old.fingerprint != item.Fingerprint {
			return tasks.Submitted{TaskID: old.task, Err: tasks.ErrKeyReused}
		}
		old.replays++
		if r := s.tasks[old.task]; r != nil && r.Status.Terminal() {
			s.spent = append(s.spent, r.saved(now))
		}
		return tasks.Submitted{TaskID: old.task, Replayed: true, ExpiresAt: old.expires}
	}
	if s.tasks[item.TaskID] != nil {
		return tasks.Submitted{Err: fmt.Errorf("%w: task id %s is taken", tasks.ErrInvalid, item.TaskID)}
	}
	in := conversation{item.Workspace, item.Conversation}
	m := s.messages[item.MessageID]
	switch {
	case item.Kind == tasks.KindReply && m != nil:
		return tasks.Submitted{Err: fmt.Errorf("%w: message id %s is taken", tasks.ErrInvalid, item.MessageID)}
	case item.Kind == tasks.KindRegenerate && (m == nil || m.in != in):
		return tasks.Submitted{Err: fmt.Errorf("%w: no message %s in the conversation", tasks.ErrInvalid, item.MessageID)}
	}
	reserved, day, err := s.reserve(item, now)
	if err != nil {
		return tasks.Submitted{Err: err}
	}
	if m == nil {
		m = s.say(in, item.MessageID, item.Request.Content, now)
	}
	r := &row{
		reserve: reserved, day: day, keyExpires: now.Add(item.Retention),
		Task: tasks.Task{
			ID: item.TaskID, Workspace: item.Workspace, Conversation: item.Conversation, MessageID: item.MessageID,
			Kind: item.Kind, Regenerates: item.Regenerates, Status: tasks.StatusQueued,
			AcceptedAt: now, AvailableAt: now, Deadline: now.Add(item.DeadlineAfter),
			Budget:      tasks.Budget{MaxAttempts: item.MaxAttempts, MaxInterruptions: item.MaxInterruptions},
			OnAmbiguous: item.OnAmbiguous, Metadata: make(map[string]string, len(item.Metadata)),
		},
		request: clean(item.Request),
		trace:   tasks.Clean(item.TraceParent),
	}
	r.request.Content = m.Content
	r.Model, r.Document = r.request.Model, r.request.Document
	r.PromptTemplate, r.PromptTemplateVersion = r.request.PromptTemplate, r.request.PromptTemplateVersion
	for name, value := range item.Metadata {
		r.Metadata[tasks.Clean(name)] = tasks.Clean(value)
	}
	s.insert(r)
	bound := &submission{fingerprint: item.Fingerprint, task: item.TaskID, expires: now.Add(item.Retention)}
	s.keys[key] = bound
	s.handOff(r, now)
	return tasks.Submitted{TaskID: item.TaskID, AcceptedAt: r.AcceptedAt, Deadline: r.Deadline, ExpiresAt: bound.expires}
}

// say adds a message to the end of its conversation.
func (s *Store) say(in conversation, id uuid.UUID, content string, now time.Time) *message {
	s.seq++
	m := &message{in: in, Message: tasks.Message{ID: id, Seq: s.seq, Content: tasks.Clean(content), CreatedAt: now}}
	s.messages[id] = m
	s.conversations[in] = append(s.conversations[in], m)
	return m
}

// clean returns a copy that shares nothing with r and is storable as text.
func clean(r tasks.Request) tasks.Request {
	r.Model, r.System, r.PromptTemplate = tasks.Clean(r.Model), tasks.Clean(r.System), tasks.Clean(r.PromptTemplate)
	r.PromptTemplateVersion = tasks.Clean(r.PromptTemplateVersion)
	r.Document.ID, r.Document.Version = tasks.Clean(r.Document.ID), tasks.Clean(r.Document.Version)
	if c := r.Chat; c != nil {
		r.Chat = &tasks.Chat{Messages: cleanJSON(c.Messages), Params: cleanJSON(c.Params)}
	}
	r.Temperature, r.MaxOutputTokens = clone(r.Temperature), clone(r.MaxOutputTokens)
	return r
}

func cleanJSON(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	return json.RawMessage(tasks.Clean(string(b)))
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// view is the task as a reader sees it; it shares nothing with the store.
func (r *row) view() tasks.Task {
	t := r.Task
	t.Metadata = maps.Clone(r.Metadata)
	t.Reply, t.Failure = clone(r.reply), clone(r.failure)
	t.Cost = r.cost()
	for _, a := range r.ledger { // the latest that has ended by a settle
		if a.settled {
			t.HistoryTurns, t.HistoryDropped = a.HistoryTurns, a.HistoryDropped
		}
	}
	return t
}

// cost sums the ledger. Nothing on the wire of an attempt that ended costs nothing; what is not known makes the sum
// unknown (I7).
func (r *row) cost() tasks.Cost {
	var c tasks.Cost
	var sum int64
	known := true
	for _, a := range r.ledger {
		for _, n := range [...]struct {
			sum *int64
			add *int64
		}{{&c.InputTokens, a.InputTokens}, {&c.OutputTokens, a.OutputTokens}, {&sum, a.PicoUSD}} {
			if n.add != nil {
				*n.sum += *n.add
			}
		}
		if free := !a.EndedAt.IsZero() && a.WireRequests == 0; a.PicoUSD != nil || free {
			continue
		}
		known = false
		if a.InputTokens == nil && a.OutputTokens == nil {
			c.UnknownAttempts++
		}
	}
	if known {
		c.PicoUSD = &sum
	}
	return c
}
