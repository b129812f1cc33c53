package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// folder answers FoldSpend by what it is given, and ends the test's context behind the last.
type folder struct {
	tasks.Spending
	answers []int // negative: an error
	end     func()
	calls   int
}

func (f *folder) FoldSpend(_ context.Context, limit int) (int, error) {
	n := f.answers[f.calls]
	if f.calls++; f.calls == len(f.answers) {
		f.end()
	}
	if n < 0 {
		return 0, errors.New("the database is away")
	}
	return min(n, limit), nil
}

// A backlog is added up without the rest between rounds, and a failure is told once and tried again.
func TestWhatIsSpentIsFolded(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []int
		every   time.Duration
		told    int
	}{
		{"round by round", []int{0, 1, 0}, time.Millisecond, 0},
		{"failures", []int{-1, -1, 1, -1, 0}, time.Millisecond, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var log bytes.Buffer
			n := &Node{config: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
			f := &folder{answers: c.answers, end: cancel}
			if err := n.foldSpend(ctx, f, c.every); err != nil {
				t.Fatal(err)
			}
			if told := strings.Count(log.String(), "added up"); f.calls != len(c.answers) || told != c.told {
				t.Errorf("%d calls, told %d times, want %d and %d", f.calls, told, len(c.answers), c.told)
			}
		})
	}
}
