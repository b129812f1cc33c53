package outbox

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Shards is how many parts the outbox has. A conversation's handoffs share one; see Shard.
const Shards = tasks.Shards

// Handoff is an outbox row: the record that points at a task, not yet acknowledged by the broker.
type Handoff struct {
	Shard        int16
	ID           int64
	TaskID       uuid.UUID
	Workspace    string
	Conversation string
	TraceParent  string
	AcceptedAt   time.Time
}

// Mark is how far a shard has been read: handoffs with greater ids are next.
type Mark struct {
	Shard int16
	After int64
}

// Store is what the dispatcher needs of the outbox.
type Store interface {
	// Acquire registers owner as a live dispatcher and returns the shards that are its own for lease: its fair share
	// among the live ones. What it held beyond its share is given up.
	Acquire(ctx context.Context, owner string, lease time.Duration) ([]int16, error)
	// Resign gives up every shard of owner at once.
	Resign(ctx context.Context, owner string) error
	// Read returns up to limit handoffs of each mark's shard, in the order of their ids.
	Read(ctx context.Context, marks []Mark, limit int) ([]Handoff, error)
	// Delete removes handoffs that the broker has acknowledged. A handoff that is gone already is no error.
	Delete(ctx context.Context, published []Handoff) error
	// Promote moves up to limit delayed handoffs that are due into the outbox, and returns how many.
	Promote(ctx context.Context, limit int) (int, error)
	// Pending counts what is not published, up to a bound, and the age of the oldest.
	Pending(ctx context.Context) (count int64, oldest time.Duration, err error)
}

// Shard is where a conversation's handoffs go.
func Shard(workspace, conversation string) int16 { return tasks.Shard(workspace, conversation) }
