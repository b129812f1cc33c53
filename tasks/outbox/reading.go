package outbox

import (
	"slices"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// passage remembers how far the shards had been read, until no transaction is left that could bring a smaller id. Reads
// start at the last point that is safe, not at the last id: else the row of a conversation that commits late, and is
// then followed by another one of that conversation, would be read after it.
type passage struct {
	after [tasks.Shards]int64
	next  int64
	at    time.Time
}

// patience is how long a transaction that is still running can hold the safe point back; any transaction of the server
// that writes can. What commits later than that is left to the sweep, and its order is not promised: reads would go over
// more and more dead rows, which is why patience is shorter once many ids were read beyond the point.
const (
	patience      = 5 * time.Second
	busyPatience  = time.Second
	busyAfterRows = 20_000
)

// open reports whether a transaction may still add to what p had passed, when the reads have come to the id last.
func (p *passage) open(horizon tasks.Horizon, last int64, now time.Time) bool {
	age := now.Sub(p.at)
	return p.next > horizon.Running && age < patience && (age < busyPatience || last-slices.Max(p.after[:]) < busyAfterRows)
}

// received takes in what a read from the safe points of from returned, up to limit rows a shard. It returns how many it
// took and whether there may be more.
func (h *hand) received(from []*shard, rows []tasks.Handoff, limit int, horizon tasks.Horizon, now time.Time) (taken int, more bool) {
	fresh := false
	for _, s := range from {
		var page []tasks.Handoff
		page, rows = split(rows, s.number)
		full := len(page) >= limit
		more = more || full
		s.covered = true
		for _, t := range page {
			if s.put(h, t) {
				taken++
			}
		}
		if len(page) == 0 {
			continue
		}
		last := page[len(page)-1].ID
		s.covered = !full || last >= s.after
		if last > s.after {
			s.after, fresh = last, true
		}
	}
	h.settle(from, horizon, now)
	if fresh {
		p := passage{next: horizon.Next, at: now}
		for n, s := range h.shards {
			p.after[n] = s.after
		}
		h.unsafe = append(h.unsafe, p)
	}
	return taken, more
}

// settle moves the safe points of from up, as far as the read covered what lay between.
func (h *hand) settle(from []*shard, horizon tasks.Horizon, now time.Time) {
	last := int64(0)
	for _, s := range h.shards {
		last = max(last, s.after)
	}
	for len(h.unsafe) > 0 {
		p := &h.unsafe[0]
		if p.open(horizon, last, now) {
			return
		}
		for _, s := range from {
			if s.covered {
				s.safe = max(s.safe, min(p.after[s.number], s.after))
			}
		}
		h.unsafe = h.unsafe[1:]
	}
}

// cursor is how far a sweep has come in a shard.
type cursor struct {
	shard *shard
	after int64
}

// swept takes in the late rows of a page of a sweep, and returns where the sweep goes on and how many there were. It
// leaves alone what reads will come over: a sweep's pages are of different instants and would mix up a conversation.
func (h *hand) swept(from []cursor, rows []tasks.Handoff, limit int) (rest []cursor, late int) {
	for _, c := range from {
		var page []tasks.Handoff
		page, rows = split(rows, c.shard.number)
		for _, t := range page {
			if t.ID <= c.shard.safe && c.shard.put(h, t) {
				late++
			}
		}
		if len(page) >= limit && page[len(page)-1].ID < c.shard.safe && !c.shard.lost {
			rest = append(rest, cursor{c.shard, page[len(page)-1].ID})
		}
	}
	return rest, late
}

// split cuts the rows of a shard off the front of rows, which are ordered by shard.
func split(rows []tasks.Handoff, shard int16) (page, rest []tasks.Handoff) {
	n := 0
	for n < len(rows) && rows[n].Shard == shard {
		n++
	}
	return rows[:n], rows[n:]
}
