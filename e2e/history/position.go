package history

import (
	"slices"
	"time"
)

// positions is what is known of the partitions.
type positions struct {
	records map[int32][]record // by offset, once sorted
	dead    map[place]time.Duration
	sorted  bool
	start   map[int32]int64 // records of a partition before it are deleted
	behind  map[int32]int   // records of a partition that were found settled, from its beginning

	acked map[int32]int64           // greatest position whose commit was acknowledged
	floor map[int64]map[int32]int64 // acked, when the commit of this ID was sent
}

type place struct {
	partition int32
	offset    int64
}

type record struct {
	offset   int64
	task     string
	appended time.Duration
}

func newPositions() positions {
	return positions{
		records: map[int32][]record{}, dead: map[place]time.Duration{}, start: map[int32]int64{}, behind: map[int32]int{},
		acked: map[int32]int64{}, floor: map[int64]map[int32]int64{},
	}
}

func (p *positions) record(e *Event) {
	p.records[e.Partition] = append(p.records[e.Partition], record{e.Offset, e.Task, e.T})
}

func (p *positions) deadLetter(e *Event) {
	at := place{e.Partition, e.Offset}
	if t, ok := p.dead[at]; !ok || e.T < t {
		p.dead[at] = e.T
	}
}

func (p *positions) sort() {
	if p.sorted {
		return
	}
	p.sorted = true
	for _, list := range p.records {
		slices.SortFunc(list, func(a, b record) int { return int(a.offset - b.offset) })
	}
}

// checkPosition is I2 at the moment the broker receives a commit.
func (c *checker) checkPosition(e *Event) {
	c.positions.sort()
	list := c.positions.records[e.Partition]
	prefix := c.positions.behind[e.Partition]
	for i := prefix; i < len(list) && list[i].offset < e.Offset; i++ {
		if !c.isSettled(e, list[i]) {
			c.violation("I2", list[i].task, "partition %d committed to %d; offset %d was not settled", e.Partition, e.Offset, list[i].offset)
			continue
		}
		if i == c.positions.behind[e.Partition] {
			c.positions.behind[e.Partition]++
		}
	}
	for _, s := range e.Ahead {
		from, _ := slices.BinarySearchFunc(list, s.From, func(r record, offset int64) int { return int(r.offset - offset) })
		for _, r := range list[from:] {
			if r.offset >= s.To {
				break
			}
			if !c.isSettled(e, r) {
				c.violation("I2", r.task, "partition %d committed offset %d as settled ahead; it was not", e.Partition, r.offset)
			}
		}
	}
}

func (c *checker) isSettled(commit *Event, r record) bool {
	if r.offset < c.positions.start[commit.Partition] {
		return true
	}
	if written, ok := c.positions.dead[place{commit.Partition, r.offset}]; ok && written <= commit.T {
		return true
	}
	t := c.tasks[r.task]
	if t == nil {
		return false
	}
	if t.ended >= 0 {
		return true
	}
	// A handoff that is due later replaces the records that were there when it was stored.
	return slices.ContainsFunc(t.handoffs, func(at time.Duration) bool { return at >= r.appended })
}

// checkProgress: an acknowledged position is not taken back by a later commit.
func (c *checker) checkProgress(e *Event) {
	p := &c.positions
	switch e.Type {
	case Invoke:
		if p.floor[e.ID] == nil {
			p.floor[e.ID] = map[int32]int64{}
		}
		p.floor[e.ID][e.Partition] = p.acked[e.Partition]
	case OK:
		if floor := p.floor[e.ID][e.Partition]; e.Offset < floor {
			c.violation("I2", "", "position of partition %d went back from %d to %d", e.Partition, floor, e.Offset)
		}
		p.acked[e.Partition] = max(p.acked[e.Partition], e.Offset)
	}
}
