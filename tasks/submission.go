package tasks

import (
	"time"

	"github.com/google/uuid"
)

// Operations: with workspace and key they are the scope of an idempotency key.
const (
	OperationMessage    = "message"    // a press of Send
	OperationRegenerate = "regenerate" // new work on a message
	OperationChat       = "chat"       // a call through the OpenAI-compatible door
	OperationNatural    = "natural"    // the same under a natural key, which independent callers of a workspace share
)

// Submission is one accepted press of Send, as it is handed to Store.Submit. Its ids are chosen by the caller (UUIDv7),
// so that a repeat after a lost acknowledgement is recognised as the same submission.
type Submission struct {
	Workspace   string
	Operation   string // OperationMessage
	Key         string // 1..255 printable ASCII
	Fingerprint [32]byte
	Retention   time.Duration // how long the key is remembered

	TaskID       uuid.UUID
	MessageID    uuid.UUID
	Conversation string
	Kind         Kind
	Regenerates  uuid.UUID

	Request          Request
	MaxAttempts      int
	MaxInterruptions int
	DeadlineAfter    time.Duration
	OnAmbiguous      OnAmbiguous
	Metadata         map[string]string
	TraceParent      string // W3C traceparent, or empty
	// Reserve is what the task may cost at most, in picodollars; nil: not known. It is asked for only where the workspace
	// has a budget: see ErrBudget.
	Reserve *int64
}

// Request is what is asked of the model. Every field that changes the answer is in the fingerprint.
type Request struct {
	Content        string
	Model          string
	System         string
	PromptTemplate string
	// PromptTemplateVersion is what PromptTemplate was when the message was accepted; its text is in System.
	PromptTemplateVersion string
	Document              Document
	Temperature           *float64
	MaxOutputTokens       *int
	Chat                  *Chat // nil: the request did not come through the OpenAI-compatible door
}

// Submitted is the answer to one Submission. Exactly one of TaskID and Err is set.
type Submitted struct {
	TaskID uuid.UUID // the task of this key: the caller's own, or that of the first submission
	// Replayed: the key was known with the same fingerprint, and nothing was stored.
	Replayed bool
	// AcceptedAt and Deadline are the new task's, by the database's clock. They are set on what this call stored, so that
	// the answer to a submission needs no second query; a replay leaves them zero.
	AcceptedAt, Deadline time.Time
	// ExpiresAt is when the key is forgotten, of what was stored and of a replay.
	ExpiresAt time.Time
	// Err is ErrKeyReused (TaskID is then the task that the key is bound to), ErrInProgress, ErrBudget, ErrUnpriced,
	// ErrInvalid or ErrUnavailable.
	Err error
}
