package procs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/e2e/history"
)

// traffic is many people who send one message after the other.
type traffic struct {
	group    *errgroup.Group
	cancel   context.CancelFunc
	mu       sync.Mutex
	accepted map[string]Task
}

// begin sends the messages of some conversations, with pauses of up to pause drawn from the seed. What is not accepted
// is sent again, for a minute.
func begin(t *testing.T, client *Client, drawn uint64, conversations, messages int, pause time.Duration) *traffic {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	x := &traffic{cancel: cancel, accepted: map[string]Task{}}
	x.group, ctx = errgroup.WithContext(ctx)
	for c := range conversations {
		x.group.Go(func() error {
			random := rand.New(rand.NewPCG(drawn, uint64(c)+1))
			for m := range messages {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(time.Duration(random.Int64N(int64(pause)))):
				}
				task, err := client.Submit(ctx, fmt.Sprintf("c%03d", c), fmt.Sprintf("key-%d-%d", c, m), content(c, m))
				if err != nil {
					return err
				}
				x.mu.Lock()
				x.accepted[content(c, m)] = task
				x.mu.Unlock()
			}
			return nil
		})
	}
	return x
}

// wait waits until all is accepted, and returns the tasks by their content.
func (x *traffic) wait(t *testing.T) map[string]Task {
	t.Helper()
	defer x.cancel()
	if err := x.group.Wait(); err != nil {
		t.Fatal(err)
	}
	return x.accepted
}

// checkAll is what must hold at the end of every run, whatever happened in it: everything accepted has one task, which
// is completed with one reply to its own message (I1, I3, I6), conversations were answered in their order, the requests
// that reached the model are within the budgets and in the ledger (I5), no commit was ahead of the work (I2), and nothing
// was dead-lettered. deaf: requests may have been lost on their way to the model.
func (w *World) checkAll(t *testing.T, watch *Watch, accepted map[string]Task, deaf bool) {
	t.Helper()
	all := w.states(t)
	if len(all) != len(accepted) {
		t.Errorf("%d tasks for %d accepted messages", len(all), len(accepted))
	}
	for content := range accepted {
		if s := all[content]; s.Status != "completed" || s.Replies != 1 || !strings.Contains(s.Text, content) {
			t.Errorf("%q came to %+v", content, s)
		}
	}
	w.checkOrder(t)
	w.checkLedger(t, accepted, deaf)
	w.checkCommits(t, watch)
	wrong := history.Check(w.history(t, watch, accepted))
	for _, v := range wrong[:min(len(wrong), 10)] {
		t.Error(v)
	}
}
