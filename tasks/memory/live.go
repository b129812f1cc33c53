package memory

import (
	"context"
	"slices"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

var _ tasks.LiveTexts = (*Store)(nil)

// live is the text of a task's latest assignment that has any.
type live struct {
	version int64
	pieces  []tasks.LivePiece // by index
	bytes   int               // of all that came, also of what was too much
}

// Publish implements tasks.LiveTexts.
func (s *Store) Publish(ctx context.Context, pieces []tasks.LivePiece) error {
	return s.transact(ctx, "Publish", func(time.Time) {
		for _, p := range pieces {
			p.Text = tasks.Clean(p.Text)
			l := s.live[p.TaskID]
			if l == nil || l.version < p.Version {
				l = &live{version: p.Version}
				s.live[p.TaskID] = l
			}
			known := func(other tasks.LivePiece) bool { return other.Index == p.Index }
			if l.version > p.Version || slices.ContainsFunc(l.pieces, known) {
				continue
			}
			if l.bytes += len(p.Text); l.bytes <= tasks.MaxLiveText {
				l.pieces = append(l.pieces, p)
			}
		}
	})
}

// Drop implements tasks.LiveTexts.
func (s *Store) Drop(ctx context.Context, ended []tasks.Assignment) error {
	return s.transact(ctx, "Drop", func(time.Time) {
		for _, a := range ended {
			if l := s.live[a.TaskID]; l != nil && l.version <= a.Version {
				delete(s.live, a.TaskID)
			}
		}
	})
}

// Live implements tasks.LiveTexts.
func (s *Store) Live(ctx context.Context, cursors []tasks.LiveCursor) ([]tasks.LivePiece, error) {
	var out []tasks.LivePiece
	err := s.transact(ctx, "Live", func(time.Time) {
		for _, c := range cursors {
			l := s.live[c.TaskID]
			if l == nil || l.version < c.Version {
				continue
			}
			for _, p := range l.pieces {
				if l.version > c.Version || p.Index >= c.Index {
					out = append(out, p)
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
