package memory

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Sweep deletes expired keys and old tasks as c says. Live texts and the accounts of budgets have no age here, and stay.
func (s *Store) Sweep(ctx context.Context, c tasks.SweepConfig) (tasks.Swept, error) {
	c = c.WithDefaults()
	var out tasks.Swept
	err := s.transact(ctx, "Sweep", func(now time.Time) {
		for k, bound := range s.keys {
			if r := s.tasks[bound.task]; bound.expires.After(now) || r != nil && !r.Status.Terminal() {
				continue
			}
			if out.Keys == c.Limit {
				out.More = true
				break
			}
			if out.Keys++; !c.DryRun {
				delete(s.keys, k)
			}
		}
		if c.Tasks <= 0 {
			return
		}
		for _, id := range slices.Clone(s.ids) {
			r := s.tasks[id]
			if compare(id, c.After) <= 0 || !s.old(r, c.Tasks, now) {
				continue
			}
			if out.Tasks == c.Limit {
				out.More = true
				return
			}
			out.After = id
			if out.Tasks++; !c.DryRun {
				s.forget(r)
			}
		}
		out.After = uuid.Nil
	})
	return out, err
}

// old reports whether nothing keeps the task: its age, its key, or what answers its message anew.
func (s *Store) old(r *row, age time.Duration, now time.Time) bool {
	if !r.Status.Terminal() || r.FinishedAt.Add(age).After(now) || r.keyExpires.After(now) {
		return false
	}
	for _, other := range s.tasks {
		if r.Kind == tasks.KindReply && other.Kind == tasks.KindRegenerate && other.MessageID == r.MessageID {
			return false
		}
	}
	return true
}

func (s *Store) forget(r *row) {
	s.spent = append(s.spent, r.spend()...)
	delete(s.tasks, r.ID)
	delete(s.delayed, r.ID)
	s.ids = slices.DeleteFunc(s.ids, func(id uuid.UUID) bool { return id == r.ID })
	m := s.messages[r.MessageID]
	m.Replies = slices.DeleteFunc(m.Replies, func(p tasks.Reply) bool { return p.TaskID == r.ID })
	if r.Kind == tasks.KindReply {
		delete(s.messages, m.ID)
		s.conversations[m.in] = slices.DeleteFunc(s.conversations[m.in], func(other *message) bool { return other == m })
	}
}
