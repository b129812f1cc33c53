package node

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

const (
	foldEvery = time.Second
	foldBatch = 2000
	foldPause = 10 * time.Millisecond // between two batches: what serves callers goes first
)

// foldSpend adds up what is spent until ctx is done, so that reading it stays cheap. A failure is told once, and the next
// round tries again: nothing is lost by being late. Of processes that fold at once, one does the work.
func (n *Node) foldSpend(ctx context.Context, store tasks.Spending, every time.Duration) error {
	failing := false
	for wait := every; rest(ctx, wait); {
		folded, err := store.FoldSpend(ctx, foldBatch)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			n.config.Logger.Warn("what was spent was not added up; trying again", "error", err)
		}
		failing = err != nil
		if wait = every; err == nil && folded == foldBatch {
			wait = foldPause
		}
	}
	return nil
}
