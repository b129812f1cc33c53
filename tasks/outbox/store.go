package outbox

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Store is what the dispatcher needs of the outbox. Every call may be repeated with the same arguments.
type Store interface {
	// Acquire registers owner as a live dispatcher and returns the shards that are its own for lease: its fair share
	// among the live ones. What it held beyond its share is given up.
	Acquire(ctx context.Context, owner string, lease time.Duration) ([]int16, error)
	// Resign gives up every shard of owner at once.
	Resign(ctx context.Context, owner string) error
	// Read returns up to limit handoffs of each mark's shard, those of a shard in the order of their ids, as they stand
	// at one instant. The horizon may be missing when nothing was read.
	Read(ctx context.Context, marks []tasks.Mark, limit int) ([]tasks.Handoff, tasks.Horizon, error)
	// Delete removes handoffs that the broker has acknowledged. A handoff that is gone already is no error.
	Delete(ctx context.Context, published []tasks.Handoff) error
	// Promote moves up to limit delayed handoffs that are due into the outbox, and returns how many.
	Promote(ctx context.Context, limit int) (int, error)
	// Pending counts what is not published, up to a bound, and the age of the oldest.
	Pending(ctx context.Context) (count int64, oldest time.Duration, err error)
	// Snapshot says what the store holds now, for Recover. Incomplete: more than bound handoffs are there or due.
	Snapshot(ctx context.Context, bound int) (s tasks.Snapshot, complete bool, err error)
	// Recover looks at up to limit unfinished tasks with ids greater than after, and hands those off again that are as
	// the snapshot saw them, were due then for at least due, and had no handoff. next is where to go on; Nil at the end.
	// A task is recovered once, however many snapshots of before that ask for it.
	Recover(ctx context.Context, s tasks.Snapshot, due time.Duration, after uuid.UUID, limit int) (recovered []uuid.UUID, next uuid.UUID, err error)
}
