package lag

import (
	"slices"

	"github.com/fencepost/fencepost/offsets"
)

// settledRuns joins what the commit and the database call settled, within the log [start, end).
func settledRuns(committed int64, ahead, stored []offsets.Run, start, end int64) []offsets.Run {
	var all []offsets.Run
	if committed > 0 {
		all = append(all, offsets.Run{From: 0, To: committed})
	}
	all = append(append(all, ahead...), stored...)
	slices.SortFunc(all, func(a, b offsets.Run) int { return int(max(-1, min(1, a.From-b.From))) })
	var joined []offsets.Run
	for _, r := range all {
		r.From, r.To = max(r.From, start), min(r.To, end)
		if r.To <= r.From {
			continue
		}
		if n := len(joined); n > 0 && joined[n-1].To >= r.From {
			joined[n-1].To = max(joined[n-1].To, r.To)
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// split takes the position off the settled runs: the first offset from start on that is in none of them, and what is
// settled beyond it.
func split(runs []offsets.Run, start int64) (position int64, ahead []offsets.Run) {
	if len(runs) > 0 && runs[0].From <= start {
		return runs[0].To, runs[1:]
	}
	return start, runs
}

// prefix is where a database's position is: the end of what is settled without a hole from 0 on.
func prefix(runs []offsets.Run) Offset {
	if len(runs) == 0 || runs[0].From > 0 {
		return 0
	}
	return Offset(runs[0].To)
}

func size(runs []offsets.Run) (n int64) {
	for _, r := range runs {
		n += r.To - r.From
	}
	return n
}
