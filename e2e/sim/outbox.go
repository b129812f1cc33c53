package sim

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/outbox"
)

// boxLink is the outbox as a dispatcher reaches it.
type boxLink struct {
	l     *link
	inner outbox.Store
	// onDelete is called when the broker has acknowledged records and their rows are still there.
	onDelete func()
}

var _ outbox.Store = (*boxLink)(nil)

// Acquire implements outbox.Store.
func (b *boxLink) Acquire(ctx context.Context, owner string, lease time.Duration) ([]int16, error) {
	return plain(ctx, b.l, "Acquire", func(ctx context.Context) ([]int16, error) { return b.inner.Acquire(ctx, owner, lease) })
}

// Resign implements outbox.Store.
func (b *boxLink) Resign(ctx context.Context, owner string) error {
	return bare(ctx, b.l, "Resign", func(ctx context.Context) error { return b.inner.Resign(ctx, owner) })
}

// Read implements outbox.Store.
func (b *boxLink) Read(ctx context.Context, marks []tasks.Mark, limit int) ([]tasks.Handoff, tasks.Horizon, error) {
	type page struct {
		rows    []tasks.Handoff
		horizon tasks.Horizon
	}
	p, err := plain(ctx, b.l, "Read", func(ctx context.Context) (p page, err error) {
		p.rows, p.horizon, err = b.inner.Read(ctx, marks, limit)
		return p, err
	})
	return p.rows, p.horizon, err
}

// Delete implements outbox.Store.
func (b *boxLink) Delete(ctx context.Context, published []tasks.Handoff) error {
	b.onDelete()
	return bare(ctx, b.l, "Delete", func(ctx context.Context) error { return b.inner.Delete(ctx, published) })
}

// Promote implements outbox.Store.
func (b *boxLink) Promote(ctx context.Context, limit int) (int, error) {
	return plain(ctx, b.l, "Promote", func(ctx context.Context) (int, error) { return b.inner.Promote(ctx, limit) })
}

// Pending implements outbox.Store.
func (b *boxLink) Pending(ctx context.Context) (int64, time.Duration, error) {
	return b.inner.Pending(ctx)
}

// Snapshot implements outbox.Store.
func (b *boxLink) Snapshot(ctx context.Context, bound int) (tasks.Snapshot, bool, error) {
	type taken struct {
		snapshot tasks.Snapshot
		complete bool
	}
	t, err := plain(ctx, b.l, "Snapshot", func(ctx context.Context) (t taken, err error) {
		t.snapshot, t.complete, err = b.inner.Snapshot(ctx, bound)
		return t, err
	})
	return t.snapshot, t.complete, err
}

// Recover implements outbox.Store.
func (b *boxLink) Recover(ctx context.Context, s tasks.Snapshot, due time.Duration, after uuid.UUID, limit int) ([]uuid.UUID, uuid.UUID, error) {
	type found struct {
		ids  []uuid.UUID
		next uuid.UUID
	}
	f, err := plain(ctx, b.l, "Recover", func(ctx context.Context) (f found, err error) {
		f.ids, f.next, err = b.inner.Recover(ctx, s, due, after, limit)
		if len(f.ids) > 0 {
			b.l.rec.count("lost task recovered")
		}
		return f, err
	})
	return f.ids, f.next, err
}

func bare(ctx context.Context, l *link, method string, do func(ctx context.Context) error) error {
	_, err := plain(ctx, l, method, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}
