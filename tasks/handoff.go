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
