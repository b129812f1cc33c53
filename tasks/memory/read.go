package memory

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Task implements tasks.Store.
func (s *Store) Task(ctx context.Context, workspace string, id uuid.UUID) (tasks.Task, error) {
	var task tasks.Task
	found := tasks.ErrNotFound
	err := s.transact(ctx, "Task", func(time.Time) {
		if r := s.find(workspace, id); r != nil {
			task, found = r.view(), nil
		}
	})
	if err == nil {
		err = found
	}
	return task, err
}

// Finished implements tasks.Store.
func (s *Store) Finished(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	var out []uuid.UUID
	err := s.transact(ctx, "Finished", func(time.Time) {
		for _, id := range ids {
			if r := s.tasks[id]; r != nil && r.Status.Terminal() {
				out = append(out, id)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Tasks implements tasks.Store.
func (s *Store) Tasks(ctx context.Context, f tasks.Filter) ([]tasks.Task, error) {
	limit := page(f.Limit)
	var out []tasks.Task
	err := s.transact(ctx, "Tasks", func(time.Time) {
		for _, id := range slices.Backward(s.ids) {
			r := s.tasks[id]
			switch {
			case len(out) == limit:
				return
			case f.Workspace != "" && f.Workspace != r.Workspace:
			case f.Status != "" && f.Status != r.Status:
			case f.Conversation != "" && f.Conversation != r.Conversation:
			case f.Before != uuid.Nil && compare(id, f.Before) >= 0:
			default:
				out = append(out, r.view())
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Attempts implements tasks.Store.
func (s *Store) Attempts(ctx context.Context, workspace string, id uuid.UUID) ([]tasks.Attempt, error) {
	var out []tasks.Attempt
	found := tasks.ErrNotFound
	err := s.transact(ctx, "Attempts", func(time.Time) {
		r := s.find(workspace, id)
		if r == nil {
			return
		}
		found = nil
		for _, a := range r.ledger {
			copied := a.Attempt
			copied.InputTokens, copied.OutputTokens, copied.PicoUSD = clone(a.InputTokens), clone(a.OutputTokens), clone(a.PicoUSD)
			copied.CachedInputTokens, copied.ReasoningTokens = clone(a.CachedInputTokens), clone(a.ReasoningTokens)
			if from := r.attempt(a.Recovered); from != nil {
				copied.RecoveredAttempt = from.Number
			}
			out = append(out, copied)
		}
	})
	if err == nil {
		err = found
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Conversation implements tasks.Store.
func (s *Store) Conversation(ctx context.Context, workspace, name string, after int64, limit int) ([]tasks.Message, error) {
	limit = page(limit)
	var out []tasks.Message
	err := s.transact(ctx, "Conversation", func(time.Time) {
		for _, m := range s.conversations[conversation{workspace, name}] {
			if m.Seq <= after {
				continue
			}
			if len(out) == limit {
				return
			}
			copied := m.Message
			copied.Replies = slices.Clone(m.Replies)
			out = append(out, copied)
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// page is how many entries a page has when its reader asked for limit.
func page(limit int) int {
	if limit <= 0 {
		return 100
	}
	return min(limit, 1000)
}

func compare(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
