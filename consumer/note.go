package consumer

import (
	"context"

	"github.com/fencepost/fencepost/tasks"
)

// noting is a note that its call waits for: what a lost answer can be looked up by must be durable before the call goes on.
type noting struct {
	note tasks.Note
	done chan error // has room for the answer
}

// note stores what is known of a running attempt.
func (c *Consumer) note(ctx context.Context, note tasks.Note) error {
	n := noting{note: note, done: make(chan error, 1)}
	select {
	case c.notes <- n:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-n.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// runNotes stores notes in batches until ctx is done: those that wait while a batch is stored are the next one.
func (c *Consumer) runNotes(ctx context.Context) {
	for {
		var batch []noting
		select {
		case <-ctx.Done():
			return
		case n := <-c.notes:
			batch = append(batch, n)
		}
	gather:
		for len(batch) < maxBatch {
			select {
			case n := <-c.notes:
				batch = append(batch, n)
			default:
				break gather
			}
		}
		items := make([]tasks.Note, len(batch))
		for i := range batch {
			items[i] = batch[i].note
		}
		storeCtx, cancel := context.WithTimeout(ctx, storeTimeout)
		err := c.store.Note(storeCtx, items)
		cancel()
		if err != nil {
			c.metrics.storeErrors.WithLabelValues("note").Inc()
			c.log.Warn("noting attempts failed; calls that depend on it are not made", "tasks", len(items), "error", err)
		}
		for _, n := range batch {
			n.done <- err
		}
	}
}
