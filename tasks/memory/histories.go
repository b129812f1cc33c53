package memory

import (
	"context"
	"slices"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// Histories implements tasks.Store.
func (s *Store) Histories(ctx context.Context, limits tasks.HistoryLimits, items []*tasks.Work) ([]tasks.History, error) {
	out := make([]tasks.History, len(items))
	err := s.transact(ctx, "Histories", func(time.Time) {
		for i, w := range items {
			if m := s.messages[w.MessageID]; m != nil && m.in.workspace == w.Workspace {
				out[i] = s.history(m, limits)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) history(m *message, limits tasks.HistoryLimits) (h tasks.History) {
	before := s.conversations[m.in]
	before = before[:slices.Index(before, m)]
	bytes := 0
	for _, said := range slices.Backward(before) {
		turn := tasks.Turn{Content: said.Content}
		if n := len(said.Replies); n > 0 {
			turn.Reply = said.Replies[n-1].Text
		}
		bytes += len(turn.Content) + len(turn.Reply)
		if len(h.Turns) >= limits.Turns || bytes > limits.Bytes {
			break
		}
		h.Turns = append(h.Turns, turn)
	}
	h.Dropped = min(len(before)-len(h.Turns), tasks.MaxHistoryDropped)
	slices.Reverse(h.Turns)
	return h
}
