package offsets

import (
	"fmt"
	"math"
	"slices"
)

// model is the tracker said slowly: every record ever registered, and every question answered by looking at all of them.
type model struct {
	records []record
	resumed []Run
}

type record struct {
	offset  int64
	epoch   int32
	settled bool
	handle  Handle
}

func (m *model) last() int64 {
	if len(m.records) == 0 {
		return -1
	}
	return m.records[len(m.records)-1].offset
}

// head is the index of the first unsettled record.
func (m *model) head() int {
	if i := slices.IndexFunc(m.records, func(r record) bool { return !r.settled }); i >= 0 {
		return i
	}
	return len(m.records)
}

func (m *model) position() Position {
	if len(m.records) == 0 {
		return Position{-1, -1}
	}
	p := Position{m.last() + 1, -1}
	h := m.head()
	if h < len(m.records) {
		p.Offset = m.records[h].offset
	}
	if h > 0 {
		p.LeaderEpoch = m.records[h-1].epoch
	}
	return p
}

func (m *model) unsettled() (n int) {
	for _, r := range m.records {
		if !r.settled {
			n++
		}
	}
	return n
}

// settled says of every single offset from the position on whether it need not be read again: the first record at or
// beyond it is settled, or a former assignment has said so of an offset that is beyond all records.
func (m *model) settled(offset int64) bool {
	for _, r := range m.records {
		if r.offset >= offset {
			return r.settled
		}
	}
	return Contains(m.resumed, offset)
}

// ahead collects the settled offsets one by one.
func (m *model) ahead() []Run {
	end := m.last() + 1
	for _, r := range m.resumed {
		end = max(end, r.To)
	}
	var runs []Run
	for o := max(m.position().Offset, 0); o < end; o++ {
		if !m.settled(o) {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1].To == o {
			runs[n-1].To++
		} else {
			runs = append(runs, Run{o, o + 1})
		}
	}
	return runs
}

// pair drives a tracker and its model side by side.
type pair struct {
	m model
	t *Tracker
}

func (p *pair) register(gap int64, epoch int32) error {
	offset := p.m.last() + 1 + gap
	h := p.t.Register(offset, epoch)
	if !h.Valid() {
		return fmt.Errorf("Register(%d) was refused", offset)
	}
	p.m.records = append(p.m.records, record{offset: offset, epoch: epoch, handle: h})
	return nil
}

// registerAgain offers an offset that is not above the last.
func (p *pair) registerAgain(back int64) error {
	offset := p.m.last() - back
	if h := p.t.Register(offset, 1); h.Valid() {
		return fmt.Errorf("Register(%d) was accepted after %d", offset, p.m.last())
	}
	return nil
}

func (p *pair) done(i int) error {
	r := &p.m.records[i]
	if got := p.t.Done(r.handle); got == r.settled {
		return fmt.Errorf("Done(offset %d) = %v, and it was settled before: %v", r.offset, got, r.settled)
	}
	r.settled = true
	return nil
}

// check compares everything that can be asked.
func (p *pair) check() error {
	if got, want := p.t.Position(), p.m.position(); got != want {
		return fmt.Errorf("Position = %+v, want %+v", got, want)
	}
	h := p.m.head()
	offset, ok := p.t.Head()
	if ok != (h < len(p.m.records)) || (ok && offset != p.m.records[h].offset) {
		return fmt.Errorf("Head = %d, %v, want record %d of %d", offset, ok, h, len(p.m.records))
	}
	window, unsettled := len(p.m.records)-h, p.m.unsettled()
	if p.t.Window() != window || p.t.Unsettled() != unsettled || p.t.SettledAhead() != window-unsettled {
		return fmt.Errorf("window %d, unsettled %d, ahead %d, want %d, %d, %d",
			p.t.Window(), p.t.Unsettled(), p.t.SettledAhead(), window, unsettled, window-unsettled)
	}
	kept := Run{-9, math.MaxInt64} // Ahead appends: what was in dst stays as it is
	got := p.t.Ahead([]Run{kept})
	if got[0] != kept || !slices.Equal(got[1:], p.m.ahead()) {
		return fmt.Errorf("Ahead = %v, want %v", got, p.m.ahead())
	}
	return nil
}
