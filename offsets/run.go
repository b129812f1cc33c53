package offsets

import "sort"

// Position is where reading goes on.
type Position struct {
	Offset int64 // of the next record to read; -1: unknown
	// LeaderEpoch of the last record before Offset, which lets a broker notice that the log was cut back; -1: unknown.
	LeaderEpoch int32
}

// Run is a half-open span of settled offsets at or beyond the position: From is settled, To is not part of it.
type Run struct{ From, To int64 }

// Commit is what is to be kept of one partition.
type Commit struct {
	Topic     string
	Partition int32
	Position  Position
	Ahead     []Run // ascending, apart from each other, none before Position.Offset
}

// Contains reports whether offset lies in one of runs, which are ascending and do not overlap.
func Contains(runs []Run, offset int64) bool {
	i := sort.Search(len(runs), func(i int) bool { return runs[i].To > offset })
	return i < len(runs) && runs[i].From <= offset
}

// appendRun adds r behind the runs of dst from index base on, joining it with the last of them where they touch.
func appendRun(dst []Run, base int, r Run) []Run {
	if n := len(dst); n > base && dst[n-1].To >= r.From {
		dst[n-1].To = max(dst[n-1].To, r.To)
		return dst
	}
	return append(dst, r)
}
