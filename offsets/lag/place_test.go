package lag

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencepost/fencepost/offsets"
)

// TestPositionAgreesWithASet: the position and what is settled beyond it are those of a set of offsets.
func TestPositionAgreesWithASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 40
		spans := rapid.Custom(func(t *rapid.T) []offsets.Run {
			var list []offsets.Run
			at := int64(0)
			for range rapid.IntRange(0, 4).Draw(t, "n") {
				from := at + rapid.Int64Range(0, 6).Draw(t, "gap")
				at = from + rapid.Int64Range(1, 6).Draw(t, "length")
				list = append(list, offsets.Run{From: from, To: at})
				at++
			}
			return list
		})
		start := rapid.Int64Range(0, 10).Draw(t, "start")
		end := rapid.Int64Range(start, most).Draw(t, "end")
		committed := rapid.Int64Range(start, end).Draw(t, "committed")
		ahead, stored := spans.Draw(t, "ahead"), spans.Draw(t, "stored")

		set := make([]bool, most+60)
		for _, r := range append(append([]offsets.Run{{From: 0, To: committed}}, ahead...), stored...) {
			for o := r.From; o < r.To; o++ {
				set[o] = true
			}
		}
		position := start
		for position < end && set[position] {
			position++
		}
		var beyond []int64
		for o := position; o < end; o++ {
			if set[o] {
				beyond = append(beyond, o)
			}
		}
		got, runs := split(settledRuns(committed, ahead, stored, start, end), start)
		var gotBeyond []int64
		for o := int64(0); o < most+60; o++ {
			if offsets.Contains(runs, o) {
				gotBeyond = append(gotBeyond, o)
			}
		}
		if got != position || !slices.Equal(gotBeyond, beyond) || size(runs) != int64(len(beyond)) {
			t.Fatalf("position %d and %v beyond it, want %d and %v", got, runs, position, beyond)
		}
	})
}
