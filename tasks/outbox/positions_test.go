package outbox

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

func TestPositionsArePassedPartitionByPartition(t *testing.T) {
	for _, c := range []struct {
		name      string
		mark, now []position
		passed    bool
	}{
		{"no record at all", []position{{-1, 0, 0}}, []position{{-1, 0, 0}}, true},
		{"nobody has read", []position{{-1, 0, 5}}, []position{{-1, 0, 9}}, false},
		{"read in part", []position{{2, 0, 5}}, []position{{4, 0, 9}}, false},
		{"read", []position{{2, 0, 5}}, []position{{5, 0, 9}}, true},
		{"one partition is not", []position{{2, 0, 5}, {0, 0, 3}}, []position{{9, 0, 9}, {2, 0, 3}}, false},
		{"deleted, never read", []position{{-1, 0, 5}}, []position{{-1, 5, 9}}, true},
		{"deleted in part, never read", []position{{-1, 0, 5}}, []position{{-1, 3, 9}}, false},
		{"the position is deleted", []position{{2, 0, 5}}, []position{{2, 6, 9}}, true},
		{"the position is deleted, what follows is not", []position{{2, 0, 5}}, []position{{2, 4, 9}}, false},
		{"a commit to another log", []position{{100, 0, 5}}, []position{{100, 0, 200}}, false},
		{"a commit to another log, of an empty one", []position{{100, 0, 0}}, []position{{100, 0, 0}}, true},
		{"a commit to another log, then one to this", []position{{100, 0, 5}}, []position{{4, 0, 200}}, false},
		{"a commit to another log, then one beyond the mark", []position{{100, 0, 5}}, []position{{7, 0, 200}}, true},
		{"a partition has no answer", []position{{0, 0, 0}, {0, 0, 0}}, []position{{0, 0, 0}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := at(c.now).passed(at(c.mark)); got != c.passed {
				t.Errorf("passed: %t", got)
			}
		})
	}
}

func TestAnotherLogIsNotTheOneOfTheMark(t *testing.T) {
	mark := at([]position{{3, 0, 5}, {-1, 0, 0}})
	for _, c := range []struct {
		name      string
		now       positions
		continues bool
	}{
		{"it grew and was read", at([]position{{5, 5, 9}, {0, 0, 2}}), true},
		{"one more partition", at([]position{{3, 0, 5}, {-1, 0, 0}, {-1, 0, 0}}), false},
		{"one less", at([]position{{3, 0, 5}}), false},
		{"cut off", at([]position{{3, 0, 4}, {-1, 0, 0}}), false},
		{"made again", positions{id: kadm.TopicID{1}, partitions: mark.partitions}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.now.continues(mark); got != c.continues {
				t.Errorf("continues: %t", got)
			}
		})
	}
}

func at(partitions []position) positions {
	p := positions{partitions: map[int32]position{}}
	for n, at := range partitions {
		p.partitions[int32(n)] = at
	}
	return p
}
