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
		{"after the work", []commit{{0, 1, at(100)}, {0, 2, at(201)}, {1, 1, at(300)}}, nil},
		{"no commit yet", []commit{{0, -1, at(1)}}, nil},
		{"ahead for a millisecond", []commit{{0, 2, at(199)}}, []string{"task b"}},
		{"ahead of two", []commit{{0, 2, at(1)}}, []string{"task a", "task b"}},
		{"past a task that never ended", []commit{{1, 2, at(900)}}, []string{"task d"}},
		{"back", []commit{{0, 2, at(900)}, {0, 1, at(901)}}, []string{"went back"}},
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
