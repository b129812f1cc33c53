package lag

import (
	"fmt"
	"time"
)

// Sample is what the judgement of a partition looks at, at one moment.
type Sample struct {
	At           time.Time
	Committed    Offset
	Position     Offset
	End          Offset
	Lag          Offset
	SettledAhead Offset
	LagSeconds   Seconds
	Status       Status // as it was judged then
	owner        owner
}

// owner says whether a member has the partition. While the group rebalances nobody knows.
type owner uint8

const (
	ownerUnknown owner = iota
	ownerThere
	ownerNone
)

// Rules are the bounds of the judgement.
type Rules struct {
	// Allowed is the lag that is OK whatever else happens. 0: none.
	Allowed Offset
	// Patience is for how long a partition may stand still, or only fall behind, before that is said. A window that is
	// shorter can say it too, of a record that has waited for longer than that. 0: 1 min.
	Patience time.Duration
	// BlockedAfter is for how long one record may hold the position back while others behind it are settled, and for how
	// long one task may run. 0: 2 min.
	BlockedAfter time.Duration
}

func (r Rules) withDefaults() Rules {
	if r.Patience == 0 {
		r.Patience = time.Minute
	}
	if r.BlockedAfter == 0 {
		r.BlockedAfter = 2 * time.Minute
	}
	return r
}

// window is how far back the judgement looks.
func (r Rules) window() time.Duration { return max(r.Patience, r.BlockedAfter) }

func sampleOf(r *Report, p *Partition) Sample {
	s := Sample{
		At: r.At, Committed: p.Committed, Position: p.Position, End: p.End, Lag: p.Lag, SettledAhead: p.SettledAhead,
		LagSeconds: p.LagSeconds,
	}
	switch {
	case p.Member != "":
		s.owner = ownerThere
	case r.settled():
		s.owner = ownerNone
	}
	return s
}

// settled reports whether the group's assignment is what the report says.
func (r *Report) settled() bool {
	return r.State == "Stable" || r.State == "Empty" || r.State == "Dead"
}

// judge fills in Status, Why, Rate and ETASeconds of a partition that could be read, from samples of it, oldest first,
// of which the last is its present state. The rules are Burrow's, with what it cannot see: who has the partition, what
// is settled beyond the position, and how old the record at the position is.
func judge(p *Partition, w []Sample, rules Rules) {
	if p.Lag < 0 {
		p.Status = Unknown
		return
	}
	p.Rate, p.ETASeconds = pace(p, w)
	p.Status, p.Why = verdict(p, w, rules)
}

func verdict(p *Partition, w []Sample, rules Rules) (Status, string) {
	held := heldFor(w, func(s Sample) Offset { return s.Position })
	whole := w[len(w)-1].At.Sub(w[0].At)
	switch {
	case p.Lag <= rules.Allowed:
		return OK, ""
	case p.Committed > p.End:
		return Rewind, fmt.Sprintf("%d was committed for a log that is gone; this one ends at %d, and is read from its start", p.Committed, p.End)
	case p.Position >= p.End:
		return OK, "" // all is settled in the database, and the commit follows
	case !p.LagSeconds.Known():
		return Unknown, "the record at the position cannot be read"
	case p.Committed < 0:
		return NoCommit, "the group has committed nothing; the lag counts from the log's start"
	}
	if before := highest(w); before > p.Committed {
		return Rewind, fmt.Sprintf("the position went back from %d to %d", before, p.Committed)
	}
	if unowned(w) && held == whole {
		return Stop, "no member of the group has this partition"
	}
	name := fmt.Sprintf("offset %d", p.Position)
	if p.Head != nil && p.Head.Task != "" {
		name = fmt.Sprintf("offset %d, task %s,", p.Head.Offset, p.Head.Task)
	}
	if p.SettledAhead > 0 && p.LagSeconds.Duration() >= rules.BlockedAfter && (held >= rules.BlockedAfter || held == whole && blocks(p, w)) {
		return Blocked, fmt.Sprintf("%s holds %d settled offsets back", name, p.SettledAhead)
	}
	if len(w) < 2 && p.LagSeconds.Duration() >= rules.Patience {
		return Unknown, "one look does not say whether it moves"
	}
	long := func(d time.Duration) bool {
		return d >= rules.Patience || d == whole && p.LagSeconds.Duration() >= rules.Patience
	}
	still := heldFor(w, func(s Sample) Offset { return s.Position + s.SettledAhead })
	running := p.Head != nil && p.Head.TaskStatus == "running" && p.LagSeconds.Duration() < rules.BlockedAfter
	if long(still) && !running {
		return Stall, fmt.Sprintf("a member has it and nothing has moved for %s", still.Round(time.Second))
	}
	if rising := risingFor(w, rules.Allowed); long(rising) && still < rising {
		return Warn, "it moves, and the lag does not fall"
	}
	return OK, ""
}

// blocks is for a window that is shorter than the bound: what it shows leaves no other reading.
func blocks(p *Partition, w []Sample) bool {
	grew := p.SettledAhead > w[0].SettledAhead
	onlyHead := p.Head != nil && p.Head.Offset+1+p.SettledAhead >= p.End
	return grew || onlyHead
}

// heldFor is for how long a value has been what it is.
func heldFor(w []Sample, value func(Sample) Offset) time.Duration {
	last := w[len(w)-1]
	since := last.At
	for i := len(w) - 1; i >= 0 && value(w[i]) == value(last); i-- {
		since = w[i].At
	}
	return last.At.Sub(since)
}

// risingFor is for how long what is left to do has neither fallen nor been allowed. What is settled beyond the position
// is done, though the lag counts it.
func risingFor(w []Sample, allowed Offset) time.Duration {
	last := w[len(w)-1]
	since := last
	for i := len(w) - 2; i >= 0 && w[i].Lag > allowed && w[i].unsettled() <= since.unsettled(); i-- {
		since = w[i]
	}
	return last.At.Sub(since.At)
}

func (s Sample) unsettled() Offset { return s.End - s.Position - s.SettledAhead }

func highest(w []Sample) Offset {
	most := None
	for _, s := range w {
		most = max(most, s.Committed)
	}
	return most
}

// unowned reports whether no sample saw an owner, and the last one says that there is none.
func unowned(w []Sample) bool {
	for _, s := range w {
		if s.owner == ownerThere {
			return false
		}
	}
	return w[len(w)-1].owner == ownerNone
}

// pace is how fast the position moves in the window, and how long the lag takes at that rate.
func pace(p *Partition, w []Sample) (rate, eta Seconds) {
	first, last := w[0], w[len(w)-1]
	span := last.At.Sub(first.At).Seconds()
	if span <= 0 || last.Position < first.Position || first.Position < 0 {
		return NoSeconds, NoSeconds
	}
	rate = Seconds(float64(last.Position-first.Position) / span)
	switch {
	case p.Lag == 0:
		return rate, 0
	case rate == 0:
		return rate, NoSeconds
	}
	return rate, Seconds(float64(p.Lag)) / rate
}
