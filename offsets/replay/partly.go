package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PartlyError: some of it stands. Failed are the partitions whose commit did not move.
type PartlyError struct {
	Moved  []int32 // commit moved
	Failed map[int32]error
	Stored []int32 // moved with the replies, whatever became of their commits
	To     map[int32]int64
}

// Error says what stands.
func (e *PartlyError) Error() string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(e.Failed)) {
		fmt.Fprintf(&b, "the commit of partition %d was not moved to %d: %v; ", p, e.To[p], e.Failed[p])
	}
	fmt.Fprintf(&b, "moved: the commits of %s, and with the replies the positions of %s; a worker goes on from the farther of the two",
		listed(e.Moved), listed(e.Stored))
	return b.String()
}

// Unwrap returns the causes.
func (e *PartlyError) Unwrap() []error { return slices.Collect(maps.Values(e.Failed)) }

func listed(partitions []int32) string {
	if len(partitions) == 0 {
		return "no partition"
	}
	words := make([]string, len(partitions))
	for i, p := range partitions {
		words[i] = fmt.Sprint(p)
	}
	return "partitions " + strings.Join(words, ", ")
}
