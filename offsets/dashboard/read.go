package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// shared is how long one reading is given to all who ask.
	shared = 2 * time.Second
	// readTimeout bounds a reading: a source that does not answer is shown as such, and the others are shown.
	readTimeout = 6 * time.Second
)

// part is what a source answered.
type part[T any] struct {
	Here      bool   // the process has this source
	Err       string // why there is no V
	Elsewhere bool   // another process has it
	V         T
}

// reading is what all sources said at about one moment.
type reading struct {
	at     time.Time
	lag    part[Lag]
	work   part[Work]
	money  part[Money]
	outbox part[Outbox]
	gate   *Gate
}

// reader gives one reading to many.
type reader struct {
	sources Sources
	now     func() time.Time
	turn    chan struct{} // one reading at a time; who waits gets what it brought

	mu     sync.Mutex
	latest *reading
}

func newReader(s Sources) *reader {
	return &reader{sources: s, now: time.Now, turn: make(chan struct{}, 1)}
}

func (r *reader) recent() *reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest != nil && r.now().Sub(r.latest.at) < shared {
		return r.latest
	}
	return nil
}

// read returns a reading that is not older than shared, or ctx's cause.
func (r *reader) read(ctx context.Context) (*reading, error) {
	if latest := r.recent(); latest != nil {
		return latest, nil
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if latest := r.recent(); latest != nil {
		return latest, nil
	}
	// Of the one who reads, not of those who wait: a browser that goes away must not fail the others' page.
	reading := r.fresh(context.WithoutCancel(ctx))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest = reading
	return reading, nil
}

func (r *reader) fresh(ctx context.Context) *reading {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out := &reading{at: r.now()}
	var wg sync.WaitGroup
	if s := r.sources.Lag; s != nil {
		wg.Go(func() { out.lag = ask(ctx, s.Lag) })
	}
	if s := r.sources.Work; s != nil {
		wg.Go(func() { out.work = ask(ctx, s.Work) })
	}
	if s := r.sources.Money; s != nil {
		wg.Go(func() { out.money = ask(ctx, s.Money) })
	}
	if s := r.sources.Outbox; s != nil {
		wg.Go(func() { out.outbox = ask(ctx, s.Outbox) })
	}
	if s := r.sources.Gate; s != nil {
		gate := s.Gate()
		out.gate = &gate
	}
	wg.Wait()
	return out
}

func ask[T any](ctx context.Context, source func(context.Context) (T, error)) part[T] {
	v, err := source(ctx)
	if err != nil {
		_, elsewhere := errors.AsType[*ElsewhereError](err)
		return part[T]{Here: true, Err: err.Error(), Elsewhere: elsewhere}
	}
	return part[T]{Here: true, V: v}
}
