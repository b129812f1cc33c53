package outbox

import (
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// hand is what the dispatcher has read and not yet seen deleted. It decides which row may be published next; it does no
// input or output, and only the loop touches it.
type hand struct {
	shards   map[int16]*shard
	ready    []*lane // their first row may be published
	suspects []*lane // their first row was in a refused batch and is to be tried alone
	parked   []*lane // their first row was refused alone and waits
	recheck  time.Time
	flying   int
	alone    bool // what is flying is a suspect
	done     []*row
	gone     []departed
	unsafe   []passage
}

// shard is one assignment of a shard to us: a shard that comes back after a loss is another one.
type shard struct {
	number  int16
	lost    bool
	after   int64              // the greatest id that was read
	safe    int64              // no row with an id up to it can appear any more; see passage
	covered bool               // the last read left nothing out between safe and after
	held    map[int64]struct{} // ids in hand; see departed
	lanes   map[string]*lane
}

// lane is a conversation's rows in hand, in order. Its first row is flying, or the lane is in one of hand's lists.
type lane struct {
	shard *shard
	key   string
	rows  []*row
	tries int // refusals of the first row, alone
	until time.Time
}

type row struct {
	tasks.Handoff
	lane *lane
}

// departed is a deleted row. A read that began before the delete ended may still return it, so it stays in held until
// the reads numbered up to read are over; it would be published again otherwise.
type departed struct {
	row  *row
	read int
}

// own makes the shards of numbers ours and forgets the others. What is flying of a lost shard lands unheard, but for
// its delete.
func (h *hand) own(numbers []int16) {
	kept := make(map[int16]*shard, len(numbers))
	for _, n := range numbers {
		if kept[n] = h.shards[n]; kept[n] == nil {
			kept[n] = &shard{number: n, held: make(map[int64]struct{}), lanes: make(map[string]*lane)}
		}
	}
	for n, s := range h.shards {
		s.lost = kept[n] == nil
	}
	h.shards = kept
	h.ready, h.suspects, h.parked = present(h.ready), present(h.suspects), present(h.parked)
}

func present(lanes []*lane) []*lane {
	kept := lanes[:0]
	for _, l := range lanes {
		if !l.shard.lost {
			kept = append(kept, l)
		}
	}
	clear(lanes[len(kept):])
	return kept
}

// put takes a row in, unless it is in hand.
func (s *shard) put(h *hand, t tasks.Handoff) bool {
	if _, held := s.held[t.ID]; held || s.lost {
		return false
	}
	s.held[t.ID] = struct{}{}
	key := t.Workspace + "/" + t.Conversation
	l := s.lanes[key]
	if l == nil {
		l = &lane{shard: s, key: key}
		s.lanes[key] = l
		h.ready = append(h.ready, l)
	}
	l.rows = append(l.rows, &row{Handoff: t, lane: l})
	return true
}

// next is the row to publish now, or nil. A suspect flies alone, so that a refusal is its own.
func (h *hand) next() *row {
	from := &h.ready
	if len(h.suspects) > 0 {
		from = &h.suspects
	}
	if len(*from) == 0 || h.alone || (from == &h.suspects && h.flying > 0) {
		return nil
	}
	l := (*from)[0]
	*from = (*from)[1:]
	h.alone = from == &h.suspects
	h.flying++
	return l.rows[0]
}

// landed ends a row's flight and returns whether it was alone.
func (h *hand) landed() (alone bool) {
	alone = h.alone
	h.alone = false
	h.flying--
	return alone
}

// acknowledged: the broker has the record; its row can be deleted, and the conversation goes on.
func (h *hand) acknowledged(r *row) {
	h.landed()
	h.done = append(h.done, r)
	l := r.lane
	if l.shard.lost {
		return
	}
	l.tries = 0
	if l.rows = l.rows[1:]; len(l.rows) > 0 {
		h.ready = append(h.ready, l)
	} else {
		delete(l.shard.lanes, l.key)
	}
}

// failed: the record did not get through; it is next in its conversation again.
func (h *hand) failed(r *row) {
	alone := h.landed()
	switch {
	case r.lane.shard.lost:
	case alone:
		h.suspects = append(h.suspects, r.lane)
	default:
		h.ready = append(h.ready, r.lane)
	}
}

// refused: the broker would not have the record or its batch. It reports whether it is certain that it was this one,
// which is then parked.
func (h *hand) refused(r *row, now time.Time) (certain bool) {
	alone := h.landed()
	l := r.lane
	switch {
	case l.shard.lost:
	case !alone:
		h.suspects = append(h.suspects, l)
	default:
		l.tries++
		l.until = now.Add(parkTime(l.tries))
		if h.parked = append(h.parked, l); len(h.parked) == 1 || l.until.Before(h.recheck) {
			h.recheck = l.until
		}
		return true
	}
	return false
}

// parkTime is 1 s, doubling to 5 min.
func parkTime(tries int) time.Duration {
	return min(time.Second<<min(tries-1, 16), 5*time.Minute)
}

// unpark makes those parked lanes suspects again whose time has come.
func (h *hand) unpark(now time.Time) {
	if len(h.parked) == 0 || now.Before(h.recheck) {
		return
	}
	waiting := h.parked[:0]
	h.recheck = now.Add(time.Hour)
	for _, l := range h.parked {
		if l.until.After(now) {
			waiting = append(waiting, l)
			if l.until.Before(h.recheck) {
				h.recheck = l.until
			}
		} else {
			h.suspects = append(h.suspects, l)
		}
	}
	clear(h.parked[len(waiting):])
	h.parked = waiting
}

// take returns up to n acknowledged rows, to delete them.
func (h *hand) take(n int) []*row {
	n = min(n, len(h.done))
	taken := h.done[:n:n]
	h.done = h.done[n:]
	return taken
}

// deleted remembers rows until the reads numbered up to read are over.
func (h *hand) deleted(rows []*row, read int) {
	for _, r := range rows {
		h.gone = append(h.gone, departed{r, read})
	}
}

// forget drops deleted rows that no read numbered oldest or above can return.
func (h *hand) forget(oldest int) {
	n := 0
	for n < len(h.gone) && h.gone[n].read < oldest {
		r := h.gone[n].row
		delete(r.lane.shard.held, r.ID)
		n++
	}
	h.gone = h.gone[n:]
}

// size counts the rows that are in hand and not deleted. What waits for a parked row does not count up to ten times
// limit: refused records must not bring the others to a stop.
func (h *hand) size(limit int) int {
	n := -len(h.gone)
	for _, s := range h.shards {
		n += len(s.held)
	}
	behind := 0
	for _, l := range h.parked {
		behind += len(l.rows)
	}
	return n - min(behind, 10*limit)
}
