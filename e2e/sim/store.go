package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/e2e/history"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

var (
	errAway = errors.New("the store is away")
	errLost = errors.New("the acknowledgement was lost")
)

// database is the one store, and whether it can be reached.
type database struct {
	*memory.Store
	rec *recorder

	mu      sync.Mutex // a statement and its events are one step
	until   time.Time  // it is away until then
	losing  int        // one in so many acknowledgements is lost; 0: none
	content map[string]uuid.UUID
	flights sync.WaitGroup // requests on their way: they outlive their callers
}

// link is the database as a process reaches it. It implements tasks.Store.
type link struct {
	*database
	p    *proc
	slow time.Duration // a request takes up to this long, each way
}

// request is one call of the store. events has one for each item, as asked; answer fills in what was decided.
type request[T any] struct {
	method string
	events []history.Event
	do     func(ctx context.Context) (T, error)
	answer func(result T, i int, e *history.Event)
}

type outcome[T any] struct {
	result T
	err    error
	typ    history.Type // OK, Fail: nothing has happened, Info: nobody knows
}

// send puts a request on its way and waits for the answer or the end of ctx, whichever is first. The request is then
// still on its way.
func send[T any](ctx context.Context, l *link, q request[T]) (T, error) {
	first := l.rec.ids(len(q.events))
	for i := range q.events {
		e := &q.events[i]
		e.ID, e.Proc, e.Type = first+int64(i), l.p.name, history.Invoke
	}
	l.rec.add(q.events...)
	done := make(chan outcome[T], 1)
	l.flights.Go(func() { done <- travel(ctx, l, q) })
	var o outcome[T]
	select {
	case o = <-done:
	case <-ctx.Done():
		o = outcome[T]{err: context.Cause(ctx), typ: history.Info}
	}
	seen := make([]history.Event, len(q.events))
	copy(seen, q.events)
	for i := range seen {
		if seen[i].Type = o.typ; o.typ == history.OK {
			q.answer(o.result, i, &seen[i])
		}
	}
	if !l.p.isDead() { // the dead see nothing
		l.rec.add(seen...)
	}
	return o.result, o.err
}

// travel takes a request to the store and its answer back.
func travel[T any](ctx context.Context, l *link, q request[T]) (o outcome[T]) {
	gaveUp := func() bool { return ctx.Err() != nil && l.p.chance(2) } // else it was in the kernel's buffers
	if err := l.p.pass(); err != nil || gaveUp() {
		return outcome[T]{err: errors.Join(tasks.ErrUnavailable, err, ctx.Err()), typ: history.Fail}
	}
	// From here on it is on its way: it arrives even when its sender dies.
	time.Sleep(l.p.upTo(l.slow))
	if !l.reach() {
		return outcome[T]{err: errors.Join(tasks.ErrUnavailable, errAway), typ: history.Fail}
	}
	l.mu.Lock()
	o.result, o.err = q.do(context.Background())
	if o.err == nil {
		decided := make([]history.Event, len(q.events))
		copy(decided, q.events)
		for i := range decided {
			decided[i].Type = history.Applied
			q.answer(o.result, i, &decided[i])
		}
		l.rec.add(decided...)
	}
	losing := l.losing
	l.mu.Unlock()
	o.typ = history.OK
	if o.err != nil {
		o.typ = history.Fail
	}
	if losing > 0 && l.p.chance(losing) {
		l.rec.count("lost acknowledgement: " + q.method)
		return outcome[T]{err: errors.Join(tasks.ErrUnavailable, errLost), typ: history.Info}
	}
	time.Sleep(l.p.upTo(l.slow))
	if err := l.p.pass(); err != nil {
		return outcome[T]{err: err, typ: history.Info}
	}
	return o
}

// reach waits a while for a store that is away: a connection is refused, or nothing answers.
func (d *database) reach() bool {
	d.mu.Lock()
	away := time.Until(d.until)
	d.mu.Unlock()
	if away <= 0 {
		return true
	}
	d.rec.count("store away")
	if away > time.Second {
		time.Sleep(time.Second)
		return false
	}
	time.Sleep(away)
	return true
}

func (d *database) goAway(long time.Duration) {
	d.mu.Lock()
	d.until = time.Now().Add(long)
	d.mu.Unlock()
}

func (d *database) lose(oneIn int) {
	d.mu.Lock()
	d.losing = oneIn
	d.mu.Unlock()
}

// taskOf is the task whose message is content.
func (d *database) taskOf(content string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.content[content].String()
}
