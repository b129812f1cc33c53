package offsets

import "math"

// minSlots is the first ring's size: a partition with few records in work stays at 1 KiB.
const minSlots = 64

// Handle names one registered record of one tracker. The zero value is invalid.
type Handle struct {
	seq uint64 // 1 for the first record; never reused, unlike the slot it lives in
}

// Valid reports whether h was returned by a Register that accepted its record.
func (h Handle) Valid() bool { return h.seq != 0 }

type slot struct {
	offset int64
	epoch  int32
	done   bool
}

// Tracker follows the records of one assignment of a partition. It is not safe for concurrent use.
//
// It is a ring of slots for the records from the head record on. A handle carries the record's sequence number, from
// which the slot follows by a mask, so every operation but Ahead is O(1) amortised and none allocates, except that a
// full ring is doubled.
type Tracker struct {
	ring    []slot // length is a power of two
	head    uint64 // sequence number of the head record; == tail when nothing is unsettled
	tail    uint64 // sequence number of the next record
	pending int    // unsettled records in [head, tail)
	last    int64  // offset of the last registered record, -1 when there is none
	// epoch is that of the record before the head, the last one that the position covers.
	epoch   int32
	resumed []Run // settled by a former assignment and not yet read again by this one
}

// NewTracker returns a tracker that has seen nothing.
func NewTracker() *Tracker {
	return &Tracker{ring: make([]slot, minSlots), head: 1, tail: 1, last: -1, epoch: -1}
}

// Resume tells what former assignments have settled ahead, before the first record is registered. The tracker goes on
// reporting it in Ahead until it is read again, so that a second crash forgets nothing. It does not settle anything:
// the owner settles a record that Contains finds. runs is not kept.
func (t *Tracker) Resume(runs []Run) {
	t.resumed = append(t.resumed[:0], runs...)
}

// Register adds a record. Offsets increase: one that is not above the last is a second delivery within one assignment,
// and gets an invalid handle, as does an offset that cannot exist.
func (t *Tracker) Register(offset int64, leaderEpoch int32) Handle {
	if offset <= t.last || offset < 0 || offset == math.MaxInt64 {
		return Handle{}
	}
	if t.tail-t.head == uint64(len(t.ring)) {
		t.grow()
	}
	h := Handle{seq: t.tail}
	*t.at(t.tail) = slot{offset: offset, epoch: leaderEpoch}
	t.tail++
	t.pending++
	t.last = offset
	return h
}

// Done settles a record. It returns true the first time; a handle that is invalid or was used before changes nothing.
func (t *Tracker) Done(h Handle) bool {
	if h.seq < t.head || h.seq >= t.tail {
		return false
	}
	s := t.at(h.seq)
	if s.done {
		return false
	}
	s.done = true
	t.pending--
	for t.head < t.tail && t.at(t.head).done {
		t.epoch = t.at(t.head).epoch
		t.head++
	}
	return true
}

// Position is what may be committed: the offset of the first unsettled record, else the last registered one's + 1. Its
// epoch is that of the last record before it, -1 when this tracker has seen none. {-1, -1} when nothing was registered.
func (t *Tracker) Position() Position {
	switch {
	case t.last < 0:
		return Position{Offset: -1, LeaderEpoch: -1}
	case t.head == t.tail:
		return Position{Offset: t.last + 1, LeaderEpoch: t.epoch}
	default:
		return Position{Offset: t.at(t.head).offset, LeaderEpoch: t.epoch}
	}
}

// Head returns the offset of the record that holds the position back, if there is one.
func (t *Tracker) Head() (offset int64, ok bool) {
	if t.head == t.tail {
		return 0, false
	}
	return t.at(t.head).offset, true
}

// Window counts the registered records that are not behind the position: the unsettled and the settled-ahead ones.
func (t *Tracker) Window() int { return int(t.tail - t.head) }

// Unsettled counts the records that are registered and not done.
func (t *Tracker) Unsettled() int { return t.pending }

// SettledAhead counts the records that are done and wait behind the head record.
func (t *Tracker) SettledAhead() int { return t.Window() - t.pending }

// Ahead appends the runs settled beyond the position to dst, ascending. It walks the window.
func (t *Tracker) Ahead(dst []Run) []Run {
	base := len(dst)
	var before int64 // offset of the record before the one looked at; the first one is unsettled and needs none
	for seq := t.head; seq < t.tail; seq++ {
		s := t.at(seq)
		if s.done {
			dst = appendRun(dst, base, Run{From: before + 1, To: s.offset + 1})
		}
		before = s.offset
	}
	for _, r := range t.resumed {
		if r.From = max(r.From, t.last+1); r.From < r.To {
			dst = appendRun(dst, base, r)
		}
	}
	return dst
}

func (t *Tracker) at(seq uint64) *slot { return &t.ring[seq&uint64(len(t.ring)-1)] }

// grow doubles the ring. A record's slot changes with the mask, so each is moved by its sequence number.
func (t *Tracker) grow() {
	old := *t
	t.ring = make([]slot, 2*len(old.ring))
	for seq := t.head; seq < t.tail; seq++ {
		*t.at(seq) = *old.at(seq)
	}
}
