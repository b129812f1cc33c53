package procs

import (
	"strings"
	"testing"
	"time"
)

// A watcher that never finds anything would let every other test pass.
func TestI2_WatchFindsACommitAheadOfTheWork(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	records := []pointer{{0, 0, "a"}, {0, 1, "b"}, {1, 0, "c"}, {1, 1, "d"}}
	finished := map[string]time.Time{"a": at(100), "b": at(200), "c": at(300)}
	for _, c := range []struct {
		name string
		seen []commit
		want []string // one word of each complaint
	}{
		{"after the work", []commit{{partition: 0, offset: 1, seenBy: at(100)}, {partition: 0, offset: 2, seenBy: at(201)}, {partition: 1, offset: 1, seenBy: at(300)}}, nil},
		{"no commit yet", []commit{{partition: 0, offset: -1, seenBy: at(1)}}, nil},
		{"ahead for a millisecond", []commit{{partition: 0, offset: 2, seenBy: at(199)}}, []string{"task b"}},
		{"ahead of two", []commit{{partition: 0, offset: 2, seenBy: at(1)}}, []string{"task a", "task b"}},
		{"past a task that never ended", []commit{{partition: 1, offset: 2, seenBy: at(900)}}, []string{"task d"}},
		{"a span behind unfinished work", []commit{{partition: 0, from: 1, offset: 2, seenBy: at(200), span: true}}, nil},
		{"a span too far", []commit{{partition: 0, from: 1, offset: 2, seenBy: at(199), span: true}}, []string{"task b"}},
		{"back", []commit{{partition: 0, offset: 2, seenBy: at(900)}, {partition: 0, offset: 1, seenBy: at(901)}}, []string{"went back"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong, commits := (&Watch{seen: c.seen}).Judge(records, finished)
			if commits != len(c.seen) || len(wrong) != len(c.want) {
				t.Fatalf("%d commits judged, complaints %q, want %q", commits, wrong, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(wrong[i], want) {
					t.Errorf("complaint %q does not name %q", wrong[i], want)
				}
			}
		})
	}
}
