package httpapi

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

const (
	pollEvery   = 25 * time.Millisecond
	pollRest    = 2 * time.Millisecond   // between polls that are asked for
	pollFailing = 250 * time.Millisecond // while the store does not answer
	pollMax     = 2 * time.Second        // of one query, and of a rest
	pollChunk   = 1000                   // tasks of one query
	liveEvery   = 100 * time.Millisecond // between two looks at the texts of running attempts
	liveBuffer  = 16 << 10               // text that waits for one reader, in bytes, beyond its first piece
)

// hub lets any number of requests watch their tasks on one poll for all of them. What it holds for one is bounded: a reader
// that has not taken what is there is not asked for again, and the store keeps the rest.
type hub struct {
	watched tasks.Watched
	live    tasks.LiveTexts // nil: nobody sees tokens
	limits  Limits
	log     *slog.Logger

	joined   chan struct{} // capacity 1: someone watches again
	kick     chan struct{} // capacity 1: something may have happened
	draining chan struct{} // closed by drain: nobody watches any more
	drain    func()
	queries  atomic.Int64 // that were made

	mu     sync.Mutex
	count  int
	counts map[string]int // by workspace
	topics map[uuid.UUID]*topic
}

// topic is a task that somebody watches.
type topic struct {
	progress tasks.Progress // as the last poll saw it; its TaskID is nil before
	watchers []*watcher
	asked    tasks.LiveCursor // from where the pieces that are delivered next were read
}

// watcher is one request.
type watcher struct {
	hub       *hub
	workspace string
	id        uuid.UUID
	tokens    bool          // it wants all that happens; otherwise the end only
	news      chan struct{} // capacity 1: there is something to take

	// Guarded by hub.mu.
	topic  *topic
	place  int              // in topic.watchers
	asks   bool             // it has taken everything and wants tokens from cursor on
	cursor tasks.LiveCursor // the next token it wants
	pieces []tasks.LivePiece
}

func newHub(c Config) *hub {
	h := &hub{watched: c.Watched, live: c.Live, limits: c.Limits, log: c.Logger,
		joined: make(chan struct{}, 1), kick: make(chan struct{}, 1), draining: make(chan struct{}),
		counts: make(map[string]int), topics: make(map[uuid.UUID]*topic)}
	h.drain = sync.OnceFunc(func() { close(h.draining) })
	return h
}

// register begins to watch the task, before its state is read: what happens between the two is not missed. leave must be
// called. The problem: too many watch.
func (h *hub) register(workspace string, id uuid.UUID, tokens bool) (*watcher, *problem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count >= h.limits.MaxWaiters {
		return nil, overloaded("too many requests wait for tasks; ask again without waiting, or later", nil)
	}
	if h.counts[workspace] >= h.limits.MaxWaitersPerWorkspace {
		return nil, rateLimited("too many requests of this workspace wait for tasks; ask again without waiting, or later", 1)
	}
	t := h.topics[id]
	if t == nil {
		t = new(topic)
		h.topics[id] = t
	}
	w := &watcher{hub: h, workspace: workspace, id: id, tokens: tokens, news: make(chan struct{}, 1), topic: t, place: len(t.watchers)}
	t.watchers = append(t.watchers, w)
	h.counts[workspace]++
	if h.count++; h.count == 1 {
		notify(h.joined)
	}
	return w, nil
}

func (w *watcher) leave() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count--
	if h.counts[w.workspace]--; h.counts[w.workspace] == 0 {
		delete(h.counts, w.workspace)
	}
	t := w.topic
	last := len(t.watchers) - 1
	t.watchers[w.place] = t.watchers[last]
	t.watchers[w.place].place = w.place
	t.watchers[last] = nil
	t.watchers = t.watchers[:last]
	// The poll may have taken it out, and a later request may have put in another.
	if last == 0 && h.topics[w.id] == t {
		delete(h.topics, w.id)
	}
}

// ask says that everything was taken, and which token is wanted next.
func (w *watcher) ask(c tasks.LiveCursor) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.asks, w.cursor = true, c
}

// take returns how far the task was at the last poll (no TaskID: there was none), and the pieces that have come.
func (w *watcher) take() (tasks.Progress, []tasks.LivePiece) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	pieces := w.pieces
	w.pieces = nil
	return w.topic.progress, pieces
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

// run polls while anyone watches, until ctx is done.
func (h *hub) run(ctx context.Context) {
	var took time.Duration // by the last poll
	var looked time.Time   // when texts were asked for last
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
		look := h.live != nil && began.Sub(looked) >= liveEvery
		if look {
			looked = began
		}
		err := h.poll(ctx, look)
		took = time.Since(began)
		if ctx.Err() != nil {
			return
		}
		if (err != nil) != failing {
			failing = err != nil
			if failing {
				h.log.Warn("waiting for tasks: the store does not answer", "error", err)
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

// poll asks how far the watched tasks are and, when it looks, for the texts of those that run.
func (h *hub) poll(ctx context.Context, look bool) error {
	var pieces []tasks.LivePiece
	if look {
		var err error
		if pieces, err = inChunks(ctx, h, h.cursors(), h.live.Live); err != nil && ctx.Err() == nil {
			h.log.Debug("running texts could not be read; they are a courtesy", "error", err)
		}
	}
	_, err := inChunks(ctx, h, h.ids(), func(ctx context.Context, ids []uuid.UUID) ([]struct{}, error) {
		progress, err := h.watched.Progress(ctx, ids)
		h.tell(progress)
		return nil, err
	})
	h.deliver(pieces)
	return err
}

// inChunks asks for all in queries of bounded size and time.
func inChunks[In, Out any](ctx context.Context, h *hub, all []In, ask func(context.Context, []In) ([]Out, error)) (out []Out, err error) {
	for len(all) > 0 && err == nil {
		n := min(len(all), pollChunk)
		ctx, cancel := context.WithTimeout(ctx, pollMax)
		h.queries.Add(1)
		var some []Out
		some, err = ask(ctx, all[:n])
		cancel()
		all, out = all[n:], append(out, some...)
	}
	return out, err
}

func (h *hub) ids() []uuid.UUID {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]uuid.UUID, 0, len(h.topics))
	for id := range h.topics {
		ids = append(ids, id)
	}
	return ids
}

// cursors are those from which every reader of a running task gets what it asks for: one a task.
func (h *hub) cursors() []tasks.LiveCursor {
	h.mu.Lock()
	defer h.mu.Unlock()
	var cursors []tasks.LiveCursor
	for _, t := range h.topics {
		if t.progress.Status != tasks.StatusRunning {
			continue
		}
		least := tasks.LiveCursor{Version: math.MaxInt64}
		for _, w := range t.watchers {
			if w.asks && before(w.cursor, least) {
				least = w.cursor
			}
		}
		if t.asked = least; least.Version < math.MaxInt64 {
			cursors = append(cursors, least)
		}
	}
	return cursors
}

func before(a, b tasks.LiveCursor) bool {
	return a.Version < b.Version || a.Version == b.Version && a.Index < b.Index
}

// tell passes on what has changed. A task that has ended is polled no more.
func (h *hub) tell(progress []tasks.Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range progress {
		t := h.topics[p.TaskID]
		if t == nil || t.progress == p {
			continue
		}
		t.progress = p
		ended := p.Status.Terminal()
		for _, w := range t.watchers {
			if ended || w.tokens {
				notify(w.news)
			}
		}
		if ended {
			delete(h.topics, p.TaskID)
		}
	}
}

// deliver hands pieces, which stand together by task and in their order, to those who ask for them.
func (h *hub) deliver(pieces []tasks.LivePiece) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && pieces[n].TaskID == pieces[0].TaskID {
			n++
		}
		if t := h.topics[pieces[0].TaskID]; t != nil {
			for _, w := range t.watchers {
				// One that came after the texts were asked for may want earlier ones, and would take these for a gap.
				if w.asks && !before(w.cursor, t.asked) {
					w.offer(pieces[:n])
				}
			}
		}
		pieces = pieces[n:]
	}
}

// offer takes in what the watcher asks for, up to the bound of what waits for one. hub.mu is held.
func (w *watcher) offer(pieces []tasks.LivePiece) {
	size := 0
	for _, p := range pieces {
		if size > liveBuffer {
			return
		}
		if before(tasks.LiveCursor{Version: p.Version, Index: p.Index}, w.cursor) {
			continue
		}
		w.asks = false
		w.pieces = append(w.pieces, p)
		size += len(p.Text)
		notify(w.news)
	}
}
