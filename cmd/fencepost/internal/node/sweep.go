package node

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

const (
	sweepEvery = 3 * time.Minute
	sweepPause = 200 * time.Millisecond // between two batches: what serves callers goes first
)

// sweeper is the part of the store that the dispatcher role keeps small.
type sweeper interface {
	Sweep(ctx context.Context, c tasks.SweepConfig) (tasks.Swept, error)
}

// sweep deletes what retention allows, now and then, until ctx is done. A failure is told once, and the next round tries
// again. Processes that sweep at once share the work, and begin at different times.
func (n *Node) sweep(ctx context.Context, store sweeper, every time.Duration) error {
	failing := false
	for wait := rand.N(every); ; wait = every {
		if !rest(ctx, wait) {
			return nil
		}
		swept, err := n.sweepAll(ctx, store)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			n.config.Logger.Warn("what is old was not deleted; trying again later", "error", err)
		case swept.Rows() > 0:
			n.config.Logger.Info("deleted what is old", "keys", swept.Keys, "tasks", swept.Tasks,
				"live_texts", swept.LiveTexts, "budget_days", swept.BudgetDays)
		}
		failing = err != nil
	}
}

func (n *Node) sweepAll(ctx context.Context, store sweeper) (sum tasks.Swept, err error) {
	c := tasks.SweepConfig{Tasks: n.config.TaskRetention}
	for {
		var s tasks.Swept
		s, err = store.Sweep(ctx, c)
		sum.Keys, sum.Tasks = sum.Keys+s.Keys, sum.Tasks+s.Tasks
		sum.LiveTexts, sum.BudgetDays = sum.LiveTexts+s.LiveTexts, sum.BudgetDays+s.BudgetDays
		if c.After = s.After; err != nil || !s.More || !rest(ctx, sweepPause) {
			return sum, err
		}
	}
}

// rest reports whether ctx lived through d.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
