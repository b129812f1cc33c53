package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, newHarness) }

// clock is a database's clock that the test moves. Each reading moves it a little, so that short leases end by themselves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(100 * time.Microsecond)
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newHarness(t *testing.T) storetest.Harness {
	clock := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	var calls atomic.Int64
	var lose atomic.Bool
	s := New(Config{Now: clock.read, Fault: func(_ string, committed bool) error {
		if !committed {
			calls.Add(1)
		} else if lose.Swap(false) {
			return errors.New("acknowledgement lost")
		}
		return nil
	}})
	return storetest.Harness{
		Store:   s,
		Outbox:  s.Outbox(),
		Live:    s,
		Budgets: s,
		Rearmer: NewRearmer(s),
		Advance: clock.advance,
		// One lock guards every row, so it is this one that is held. A call is taken to be blocked on it when it has
		// begun and had a while to get there.
		Hold: func(uuid.UUID) func(time.Duration) {
			before := calls.Load()
			s.mu.Lock()
			return func(d time.Duration) {
				for calls.Load() == before {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(5 * time.Millisecond)
				clock.advance(d)
				s.mu.Unlock()
			}
		},
		Own: func(p tasks.Place) int64 {
			owned, _ := s.Own(p, nil, 1<<40)
			return owned.Epoch
		},
		Kept: s.Kept,
		Replays: func(item tasks.Submission) (n int64) {
			s.locked(func(time.Time) { n = s.keys[key{item.Workspace, item.Operation, item.Key}].replays })
			return n
		},
		Runs:    600,
		LoseAck: func() { lose.Store(true) },
		Handoffs: func() []tasks.Handoff {
			var marks []tasks.Mark
			for shard := range int16(tasks.Shards) {
				marks = append(marks, tasks.Mark{Shard: shard})
			}
			read, _, err := s.Outbox().Read(context.Background(), marks, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(read, func(a, b tasks.Handoff) int { return cmp.Compare(a.ID, b.ID) })
			return read
		},
		Delayed: func() map[uuid.UUID]time.Duration {
			out := make(map[uuid.UUID]time.Duration)
			s.locked(func(now time.Time) {
				for id, due := range s.delayed {
					out[id] = due.Sub(now)
				}
			})
			return out
		},
	}
}
