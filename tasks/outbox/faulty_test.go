package outbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/outbox"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// faulty is a store that can be broken in parts.
type faulty struct {
	outbox.Store
	dead      atomic.Bool // nothing works any more, as after a crash
	noDelete  atomic.Bool
	noAcquire atomic.Bool
	blind     atomic.Bool // reads say that no transaction can be late
	hold      atomic.Pointer[hold]
	reads     atomic.Int64
	queries   atomic.Int64
}

// hold stops the next read after it has looked, and lets it go on when told.
type hold struct{ looked, goOn chan struct{} }

func (f *faulty) holdRead() hold {
	h := hold{make(chan struct{}), make(chan struct{})}
	f.hold.Store(&h)
	return h
}

var errBroken = errors.New("broken by the test")

func (w *world) faulty() *faulty { return &faulty{Store: postgres.NewOutbox(w.pool)} }

func (f *faulty) check(broken ...*atomic.Bool) error {
	f.queries.Add(1)
	for _, b := range append(broken, &f.dead) {
		if b.Load() {
			return errBroken
		}
	}
	return nil
}

func (f *faulty) Acquire(ctx context.Context, owner string, lease time.Duration) ([]int16, error) {
	if err := f.check(&f.noAcquire); err != nil {
		return nil, err
	}
	return f.Store.Acquire(ctx, owner, lease)
}

func (f *faulty) Resign(ctx context.Context, owner string) error {
	if err := f.check(); err != nil {
		return err
	}
	return f.Store.Resign(ctx, owner)
}

func (f *faulty) Read(ctx context.Context, marks []tasks.Mark, limit int) ([]tasks.Handoff, tasks.Horizon, error) {
	if err := f.check(); err != nil {
		return nil, tasks.Horizon{}, err
	}
	rows, horizon, err := f.Store.Read(ctx, marks, limit)
	if f.blind.Load() {
		horizon = tasks.Horizon{}
	}
	f.reads.Add(1)
	if h := f.hold.Swap(nil); h != nil {
		close(h.looked)
		select {
		case <-h.goOn:
		case <-ctx.Done():
		}
	}
	return rows, horizon, err
}

func (f *faulty) Delete(ctx context.Context, published []tasks.Handoff) error {
	if err := f.check(&f.noDelete); err != nil {
		return err
	}
	return f.Store.Delete(ctx, published)
}

func (f *faulty) Promote(ctx context.Context, limit int) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	return f.Store.Promote(ctx, limit)
}
