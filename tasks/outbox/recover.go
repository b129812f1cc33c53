package outbox

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/tasks"
)

const (
	recoverBatch  = 1000   // unfinished tasks that are looked at in one step, and so the most that are recovered
	recoverBound  = 10_000 // handoffs in the outbox, above which it is left to publish them first
	recoverSteps  = 100    // steps of a walk in RecoverEvery, at most
	recoverLogged = 5      // ids in the log line
)

// recovery hands lost tasks off again: see the package comment.
type recovery struct {
	job
	walk walk
}

// walk is one way from a snapshot to all that was lost by then. It belongs to the step that runs, or else to the loop.
type walk struct {
	taken    bool
	snapshot tasks.Snapshot
	mark     positions // read after the snapshot was taken
	passed   bool      // every record of what was published before the snapshot is settled, or gone
	after    uuid.UUID // how far the walk over the unfinished tasks has come
}

// startRecovery runs one step of the recovery. Only the reader of the first shard does: two would do no harm, but the
// work twice.
func (l *loop) startRecovery(ctx context.Context, now time.Time, spawn func(func()), post func(func())) {
	r := &l.recovery
	if l.config.Group == "" || l.hand.shards[0] == nil || l.client == nil || l.stale || !r.ready(now) {
		return
	}
	client := l.client
	r.running = true
	spawn(func() {
		var recovered []uuid.UUID
		err := l.call(ctx, func(ctx context.Context) (err error) {
			recovered, err = r.walk.step(ctx, l.config, client)
			return err
		})
		took := time.Since(now)
		post(func() { l.recovered(recovered, took, err) })
	})
}

// recovered notes what came of a step.
func (l *loop) recovered(ids []uuid.UUID, took time.Duration, err error) {
	r := &l.recovery
	r.running = false
	r.due = time.Now().Add(l.config.RecoverEvery)
	switch {
	case err != nil && !r.failed && !l.stopping:
		l.config.Logger.Warn("lost tasks are not looked for; trying again", "topic", l.config.Topic, "group", l.config.Group, "error", err)
	case err == nil && r.walk.passed:
		r.due = time.Now().Add(max(l.config.RecoverEvery/recoverSteps, 4*took))
	}
	r.failed = err != nil
	if len(ids) == 0 {
		return
	}
	l.metrics.recovered.Add(float64(len(ids)))
	l.config.Logger.Warn("tasks that no record would have brought back are handed off again",
		"tasks", len(ids), "first", ids[:min(len(ids), recoverLogged)], "topic", l.config.Topic, "group", l.config.Group)
	l.read.due = time.Time{}
}

// step goes one step on: take a snapshot, see whether the group has passed it, and then, a page a step, walk over the
// unfinished tasks.
func (w *walk) step(ctx context.Context, c Config, client *kgo.Client) (recovered []uuid.UUID, err error) {
	if !w.passed {
		if !w.taken {
			s, complete, err := c.Store.Snapshot(ctx, recoverBound)
			if err != nil || !complete {
				return nil, err
			}
			w.snapshot = s
		}
		now, err := readPositions(ctx, client, c.Topic, c.Group)
		if err != nil {
			w.taken = w.taken && !topicGone(err)
			return nil, err
		}
		if !w.taken {
			w.taken, w.mark = true, now
		} else if !now.continues(w.mark) {
			w.taken = false
			return nil, nil
		}
		if !now.passed(w.mark) {
			return nil, nil
		}
		w.passed, w.after = true, uuid.Nil
	}
	recovered, next, err := c.Store.Recover(ctx, w.snapshot, c.RecoverMargin, w.after, recoverBatch)
	if err != nil {
		return nil, err
	}
	if w.after = next; next == uuid.Nil {
		*w = walk{}
	}
	return recovered, nil
}
