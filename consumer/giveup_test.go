package consumer

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/offsets"
	"github.com/fencepost/fencepost/tasks"
)

// A call that ends in the moment in which it is found to be stray gives its slot back once, and its record waits once.
func TestACallThatEndsWhileItIsGivenUp(t *testing.T) {
	for name, late := range map[string]bool{"settled first": false, "given up first": true} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Config{Topic: "t", Group: "g", Worker: "w", MaxInFlight: 4}, nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			a := &assignment{tracker: offsets.NewTracker(), lanes: map[uint64]*lane{}}
			it := newItem(a, &kgo.Record{Value: []byte("x")})
			it.handle = a.tracker.Register(0, 0)
			a.start(it)
			c.slots--
			j := &job{it: it, work: &tasks.Work{Assignment: tasks.Assignment{TaskID: uuid.New()}}, cancel: func(error) {}}
			settle := func() {
				c.settled([]pending{{job: j, settlement: tasks.Settlement{Outcome: tasks.OutcomeRetry, RetryAfter: time.Minute}}},
					[]tasks.Settled{{Verdict: tasks.VerdictAccepted, Status: tasks.StatusQueued}})
			}
			if late {
				c.giveUp(j)
				settle()
			} else {
				settle()
				c.giveUp(j)
			}
			if c.slots != 4 || len(c.parking) != 1 || a.started != 0 {
				t.Errorf("%d slots of 4, parked %d times, %d started", c.slots, len(c.parking), a.started)
			}
		})
	}
}
