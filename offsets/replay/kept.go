package replay

import (
	"cmp"
	"slices"

	"github.com/fencepost/fencepost/offsets"
)

// Kept is what both places have of one partition.
type Kept struct {
	Committed   int64 // -1: nothing
	LeaderEpoch int32
	Metadata    string
	Stored      bool // there are positions with the replies
	Settled     []offsets.Run
}

// Position is where a worker would go on; -1 when it would begin at the log's start. It merges both places, as a worker does.
func (k Kept) Position() int64 {
	at, runs := max(0, k.Committed), k.ahead()
	for _, r := range runs {
		if r.From <= at {
			at = max(at, r.To)
		}
	}
	if at == 0 && k.Committed < 0 && !k.Stored {
		return -1
	}
	return at
}

// ahead are all spans that are settled, in order.
func (k Kept) ahead() []offsets.Run {
	runs := slices.Clone(k.Settled)
	if k.Committed >= 0 {
		more, _ := offsets.DecodeRuns(k.Committed, k.Metadata) // what cannot be read says nothing, to workers too
		runs = append(runs, more...)
	}
	slices.SortFunc(runs, func(a, b offsets.Run) int { return cmp.Compare(a.From, b.From) })
	return runs
}

// at is the same after a move to offset. What is settled at or beyond the new position stays only on the way forwards.
func (k Kept) at(offset int64, metadataLimit int) Kept {
	after := Kept{Committed: offset, LeaderEpoch: -1, Stored: k.Stored}
	before := k.Position()
	var ahead []offsets.Run
	if offset > before {
		for _, r := range k.ahead() {
			r.From = max(r.From, offset)
			if n := len(ahead); n > 0 && r.From <= ahead[n-1].To {
				ahead[n-1].To = max(ahead[n-1].To, r.To)
			} else if r.To > r.From {
				ahead = append(ahead, r)
			}
		}
	}
	// A run that begins at the position belongs to it.
	if len(ahead) > 0 && ahead[0].From == offset {
		ahead = ahead[1:]
	}
	after.Metadata = offsets.EncodeRuns(offset, ahead, metadataLimit)
	if k.Stored {
		if offset > 0 {
			after.Settled = append(after.Settled, offsets.Run{From: 0, To: offset})
		}
		after.Settled = append(after.Settled, ahead...)
	}
	return after
}

// metadataLimit is what brokers take unless configured otherwise; the rest of what is settled ahead is read again.
const metadataLimit = 4096

func (k Kept) equal(other Kept) bool {
	return k.Committed == other.Committed && k.LeaderEpoch == other.LeaderEpoch && k.Metadata == other.Metadata && k.Stored == other.Stored &&
		slices.Equal(k.Settled, other.Settled)
}
