package tasks

import (
	"time"

	"github.com/google/uuid"
)

// Handoff is an outbox row: the record that points at a task, not yet acknowledged by the broker.
type Handoff struct {
	Shard        int16
	ID           int64 // grows in the order of a conversation's messages
	TaskID       uuid.UUID
	Workspace    string
	Conversation string
	TraceParent  string // W3C traceparent, or empty
	AcceptedAt   time.Time
}

// Mark is how far a shard has been read: handoffs with greater ids are next.
type Mark struct {
	Shard int16
	After int64
}

// Horizon places a read of the outbox among the transactions that write to it. A handoff may appear later with a
// smaller id than one that was read, since ids are drawn before the commit; it is then of a transaction that had begun,
// and once a later read's Running has come to this one's Next, no such transaction is left. The zero value is a store's
// in which an id and its handoff appear at once.
type Horizon struct {
	Running int64 // every transaction with a smaller number was over when the read began
	Next    int64 // every transaction that had begun when the read did has a smaller number
}

// Snapshot is what the outbox's store saw at one instant. It is handed back to the store that took it, to recover the
// tasks that were lost by then; see tasks/outbox.
type Snapshot struct {
	At   time.Time // by the store's clock
	Seen string    // which transactions it saw, in the store's own notation; empty where time alone says so
	// HandedOff are the tasks whose handoff was there, or was due and delayed: their record may come at any time.
	HandedOff map[uuid.UUID]struct{}
}
