package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// scripted answers each Sweep by the next of its answers, and by nothing to do when there are none left.
type scripted struct {
	mu      sync.Mutex
	answers []any
	asked   []tasks.SweepConfig
}

func (s *scripted) Sweep(_ context.Context, c tasks.SweepConfig) (tasks.Swept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, c)
	if len(s.answers) == 0 {
		return tasks.Swept{}, nil
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	if err, failed := next.(error); failed {
		return tasks.Swept{}, err
	}
	return next.(tasks.Swept), nil
}

func TestSweepGoesOnWhileThereIsMoreAndTriesAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := testNode()
		n.config.TaskRetention = 48 * time.Hour
		at := uuid.UUID{7}
		store := &scripted{answers: []any{
			errors.New("no connection"),
			tasks.Swept{Keys: 1000, After: at, More: true}, tasks.Swept{Keys: 3, More: true}, tasks.Swept{},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- n.sweep(ctx, store, time.Minute) }()
		count := func() int {
			synctest.Wait()
			store.mu.Lock()
			defer store.mu.Unlock()
			return len(store.asked)
		}
		time.Sleep(time.Minute) // the first round begins somewhere in it
		if got := count(); got != 1 {
			t.Errorf("asked %d times, want once until the next round", got)
		}
		time.Sleep(time.Minute)
		if got := count(); got != 4 {
			t.Errorf("asked %d times, want 3 more while there is more", got)
		}
		store.mu.Lock()
		c := slices.Clone(store.asked)
		store.mu.Unlock()
		if len(c) < 4 || c[2].After != at || c[3].After != uuid.Nil || c[0].Tasks != 48*time.Hour {
			t.Errorf("asked %+v", c)
		}
		time.Sleep(time.Minute)
		if got := count(); got != 5 {
			t.Errorf("asked %d times, want one more in the next round", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the end of a sweep: %v", err)
		}
	})
}
