package memory

import (
	"slices"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// partition is what places are kept under.
type partition struct {
	group string
	topic uuid.UUID
	index int32
}

// position is what is settled of a partition, and for whom.
type position struct {
	epoch   int64
	settled [][2]int64 // half-open spans, ascending, apart from each other
}

func keyOf(p tasks.Place) partition { return partition{p.Group, p.TopicID, p.Partition} }

// Own gives the partition of each place a new owner and returns the places with its epoch: places of older epochs are
// refused from here on. Spans of the group's commit are added to what is settled, unless its position is beyond the end and
// so of another log; what is settled beyond the end is dropped.
func (s *Store) Own(p tasks.Place, spans [][2]int64, end int64) (owned tasks.Place, settled [][2]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.positions[keyOf(p)]
	if at == nil {
		at = new(position)
		s.positions[keyOf(p)] = at
	}
	at.epoch++
	if len(spans) > 0 && spans[0][0] == 0 && spans[0][1] > end {
		spans = nil
	}
	for _, span := range spans {
		at.add(span)
	}
	at.cut(end)
	p.Epoch = at.epoch
	return p, slices.Clone(at.settled)
}

// Keep stores places of records that ended without a settle of their own. False: another owner's.
func (s *Store) Keep(places []tasks.Place) []bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]bool, len(places))
	for i, p := range places {
		out[i] = s.keep(p)
	}
	return out
}

// Kept is what is settled of the partition of a place.
func (s *Store) Kept(p tasks.Place) [][2]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.positions[keyOf(p)]; at != nil {
		return slices.Clone(at.settled)
	}
	return nil
}

func (s *Store) keep(p tasks.Place) bool {
	at := s.positions[keyOf(p)]
	if at == nil || at.epoch != p.Epoch {
		return false
	}
	at.add([2]int64{p.From, p.To})
	return true
}

// add merges a span with those that it overlaps or touches.
func (p *position) add(span [2]int64) {
	if span[0] >= span[1] {
		return
	}
	from := slices.IndexFunc(p.settled, func(s [2]int64) bool { return s[1] >= span[0] })
	if from < 0 {
		from = len(p.settled)
	}
	to := from
	for ; to < len(p.settled) && p.settled[to][0] <= span[1]; to++ {
		span[0], span[1] = min(span[0], p.settled[to][0]), max(span[1], p.settled[to][1])
	}
	p.settled = slices.Replace(p.settled, from, to, span)
}

func (p *position) cut(end int64) {
	for i, s := range p.settled {
		if s[1] > end {
			p.settled = p.settled[:i]
			if s[0] < end {
				p.settled = append(p.settled, [2]int64{s[0], end})
			}
			return
		}
	}
}
