package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// liveText is the streamed text of a running attempt that has not been published yet. The call adds, runLive takes.
type liveText struct {
	mu    sync.Mutex
	text  []byte
	n     int // tokens in text
	index int // of the first of them
	kept  int // bytes that were taken in, in all
}

// add takes in a piece. What is beyond the bound is dropped with everything after it, so that what is shown has no gap.
func (l *liveText) add(piece string) {
	if piece == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept += len(piece); l.kept > tasks.MaxLiveText {
		return
	}
	l.text = append(l.text, piece...)
	l.n++
}

// piece is what there is to publish.
func (l *liveText) piece() (text string, index, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text), l.index, l.n
}

// published forgets n tokens of the given bytes.
func (l *liveText) published(bytes, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = l.text[:copy(l.text, l.text[bytes:])]
	l.index += n
	l.n -= n
}

const (
	livePieces = 500     // in one statement
	liveBytes  = 1 << 20 // in one statement
)

// runLive publishes what running calls have streamed, all at once, every interval until ctx is done. It is a goroutine of
// its own: what it does is a courtesy, and must hold up nothing. Texts that could not be published wait for the next turn.
func (c *Consumer) runLive(ctx context.Context) {
	tick := time.NewTicker(c.cfg.LiveInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			// Best effort: what stays is swept.
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			c.dropLive(stopCtx)
			cancel()
			return
		case <-tick.C:
		}
		c.publishLive(ctx, c.leases.list())
		// After the pieces: those of a call that has ended meanwhile are dropped with it.
		c.dropLive(ctx)
	}
}

func (c *Consumer) publishLive(ctx context.Context, jobs []*job) {
	var pieces []tasks.LivePiece
	var of []*job
	size := 0
	flush := func() {
		if len(pieces) == 0 {
			return
		}
		storeCtx, cancel := context.WithTimeout(ctx, storeTimeout)
		err := c.cfg.Live.Publish(storeCtx, pieces)
		cancel()
		if err != nil {
			c.metrics.storeErrors.WithLabelValues("live").Inc()
			c.log.Debug("publishing running texts failed", "tasks", len(pieces), "error", err)
		} else {
			for i, j := range of {
				j.live.published(len(pieces[i].Text), pieces[i].Tokens)
			}
		}
		pieces, of, size = pieces[:0], of[:0], 0
	}
	for _, j := range jobs {
		text, index, n := j.live.piece()
		if n == 0 {
			continue
		}
		w := j.work
		pieces = append(pieces, tasks.LivePiece{TaskID: w.TaskID, Version: w.Version, Attempt: w.Attempts, Index: index, Tokens: n, Text: text})
		of = append(of, j)
		if size += len(text); len(pieces) >= livePieces || size >= liveBytes {
			flush()
		}
	}
	flush()
}

// liveEnded remembers that a job's text is worth nothing any more.
func (c *Consumer) liveEnded(j *job) {
	if c.cfg.Live == nil {
		return
	}
	j.live.mu.Lock()
	streamed := j.live.kept > 0
	j.live.mu.Unlock()
	if streamed {
		c.endedMu.Lock()
		c.liveOver = append(c.liveOver, j.work.Assignment)
		c.endedMu.Unlock()
	}
}

func (c *Consumer) dropLive(ctx context.Context) {
	c.endedMu.Lock()
	over := c.liveOver
	c.liveOver = nil
	c.endedMu.Unlock()
	if len(over) == 0 {
		return
	}
	storeCtx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := c.cfg.Live.Drop(storeCtx, over); err != nil {
		c.metrics.storeErrors.WithLabelValues("live").Inc()
		c.log.Debug("dropping texts of ended calls failed; they are swept later", "tasks", len(over), "error", err)
	}
}
