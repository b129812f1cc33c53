package httpapi

import (
	"context"
	"sync/atomic"
	"time"
)

// Backlog counts the tasks that are not finished.
type Backlog interface {
	// Unfinished counts up to most of them, so that the count of a long backlog costs no more than that of a full one.
	Unfinished(ctx context.Context, most int) (int, error)
}

const backlogEvery = 2 * time.Second

// shed refuses new work while more than max tasks wait: a queue without an end only makes everyone wait past their
// deadlines. The count is a few seconds old, so that some more than max may get in.
type shed struct {
	backlog Backlog // nil: there is no bound
	max     int
	full    atomic.Bool
	errors  errorLog
}

// run counts until ctx is done.
func (s *shed) run(ctx context.Context) {
	if s.backlog == nil {
		return
	}
	for {
		countCtx, cancel := context.WithTimeout(ctx, backlogEvery)
		n, err := s.backlog.Unfinished(countCtx, s.max)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil: // what was known stays: a store that does not answer refuses by itself
			s.errors.log.Debug("the backlog could not be counted", "error", err)
		default:
			if full := n >= s.max; s.full.Swap(full) != full {
				s.errors.log.Warn("new messages are refused while too many tasks are unfinished", "refused", full, "unfinished", n, "limit", s.max)
			}
		}
		if !sleep(ctx, backlogEvery, nil) {
			return
		}
	}
}
