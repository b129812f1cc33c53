package httpapi

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

const (
	pollEvery   = 25 * time.Millisecond
	pollRest    = 2 * time.Millisecond   // between polls that are asked for
	pollFailing = 250 * time.Millisecond // while the store does not answer
	pollMax     = 2 * time.Second        // of one query, and of a rest
	pollChunk   = 1000                   // ids of one query
)

// parseWait reads the parameter wait: a Go duration, or whole seconds. It is cut to limit.
func parseWait(s string, limit time.Duration) (time.Duration, *problem) {
	d, err := time.ParseDuration(s)
	if seconds, intErr := strconv.ParseUint(s, 10, 64); intErr == nil {
		// Compared as numbers: a large number of seconds would overflow a duration into the past.
		d, err = limit, nil
		if seconds < uint64(limit/time.Second) {
			d = time.Duration(seconds) * time.Second
		}
	}
	if err != nil || d < 0 {
		return 0, invalidField("wait", "is neither a duration such as 30s nor a number of seconds")
	}
	return min(d, limit), nil
}

// hub lets any number of requests wait for their tasks on one query for all of them.
type hub struct {
	store tasks.Store
	max   int
	log   *slog.Logger

	joined   chan struct{} // capacity 1: someone waits again
	kick     chan struct{} // capacity 1: something may have finished
	draining chan struct{} // closed by drain: nobody waits any more
	drain    func()

	mu      sync.Mutex
	count   int
	waiters map[uuid.UUID]*waiter
}

// waiter is shared by all requests that wait for one task.
type waiter struct {
	finished chan struct{} // closed by the poll
	requests int
}

func newHub(store tasks.Store, limit int, log *slog.Logger) *hub {
	h := &hub{store: store, max: limit, log: log, joined: make(chan struct{}, 1), kick: make(chan struct{}, 1), draining: make(chan struct{}),
		waiters: make(map[uuid.UUID]*waiter)}
	h.drain = sync.OnceFunc(func() { close(h.draining) })
	return h
}

// register begins to wait for the task, before its state is read: a task that finishes between the two is not missed.
// The channel is closed once it has finished. leave must be called. False: too many wait.
func (h *hub) register(id uuid.UUID) (finished <-chan struct{}, leave func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count >= h.max {
		return nil, nil, false
	}
	w := h.waiters[id]
	if w == nil {
		w = &waiter{finished: make(chan struct{})}
		h.waiters[id] = w
	}
	h.count++
	w.requests++
	if h.count == 1 {
		notify(h.joined)
	}
	return w.finished, func() { h.leave(id, w) }, true
}

func (h *hub) leave(id uuid.UUID, w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count--
	w.requests--
	// The poll may have taken it out, and a later request may have put in another.
	if w.requests == 0 && h.waiters[id] == w {
		delete(h.waiters, id)
	}
}

// wake asks for a poll now. It never blocks.
func (h *hub) wake() { notify(h.kick) }

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (h *hub) waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

func (h *hub) ids() []uuid.UUID {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]uuid.UUID, 0, len(h.waiters))
	for id := range h.waiters {
		ids = append(ids, id)
	}
	return ids
}

// run polls while anyone waits, until ctx is done.
func (h *hub) run(ctx context.Context) {
	var took time.Duration // by the last poll
	failing := false
	for {
		if h.waiting() == 0 {
			select {
			case <-h.joined:
				continue
			case <-ctx.Done():
				return
			}
		}
		// Polls that take long are followed by longer rests, also when they are asked for, so that waiting takes a fifth of
		// one connection at most. What is asked for during the rest is not lost.
		rest := min(max(pollRest, 4*took), pollMax)
		every := pollEvery
		if failing {
			every = pollFailing
		}
		if !sleep(ctx, rest, nil) || !sleep(ctx, every-rest, h.kick) {
			return
		}
		began := time.Now()
		err := h.poll(ctx)
		took = time.Since(began)
		if ctx.Err() != nil {
			return
		}
		if (err != nil) != failing {
			failing = err != nil
			if failing {
				h.log.Warn("waiting for tasks: the store does not answer", "err", err)
			} else {
				h.log.Info("waiting for tasks: the store answers again")
			}
		}
	}
}

// sleep returns after d or when told to wake, and false once ctx is done.
func sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
		return false
	}
	return true
}

func (h *hub) poll(ctx context.Context) error {
	ids := h.ids()
	for len(ids) > 0 {
		n := min(len(ids), pollChunk)
		ctx, cancel := context.WithTimeout(ctx, pollMax)
		done, err := h.store.Finished(ctx, ids[:n])
		cancel()
		if err != nil {
			return err
		}
		ids = ids[n:]
		h.mu.Lock()
		for _, id := range done {
			if w := h.waiters[id]; w != nil {
				close(w.finished)
				delete(h.waiters, id)
			}
		}
		h.mu.Unlock()
	}
	return nil
}
