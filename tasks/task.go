package tasks

import (
	"time"

	"github.com/google/uuid"
)

// Task is a reply task as a reader sees it: one answer to one message, the unit of logical work.
// Instants are the database's.
type Task struct {
	ID           uuid.UUID
	Workspace    string
	Conversation string
	MessageID    uuid.UUID
	Kind         Kind
	Regenerates  uuid.UUID // the task whose message is answered anew; uuid.Nil for KindReply
	Status       Status

	AcceptedAt  time.Time
	AvailableAt time.Time // a queued task may be claimed from here on
	Deadline    time.Time
	FinishedAt  time.Time // zero while the task is not terminal

	Budget
	Version    int64 // assignment_version: grows by one with every claim
	LeaseUntil time.Time
	Worker     string

	Model       string
	Document    Document
	OnAmbiguous OnAmbiguous
	Metadata    map[string]string
	// PromptTemplate and PromptTemplateVersion are what the task was accepted with; empty without one.
	PromptTemplate, PromptTemplateVersion string

	Reply   *Reply   // the saved response, once completed
	Failure *Failure // the last failure, of a failed task or of the attempt before
	Cost    Cost
	// HistoryTurns and HistoryDropped are what the latest attempt to end sent of the conversation, and left out.
	HistoryTurns, HistoryDropped int
}

// Kind says what made the task.
type Kind string

const (
	KindReply      Kind = "reply"      // a press of Send
	KindRegenerate Kind = "regenerate" // new work on the same message
)

// Document is what a task is about, as the caller named it. It is part of the fingerprint. The zero value is none.
type Document struct {
	ID      string `json:"id"`
	Version string `json:"version,omitempty"`
}

// OnAmbiguous is the task's policy for an attempt whose request may have run at the provider.
type OnAmbiguous string

const (
	// AmbiguousRetry finishes the reply at the risk of paying for two calls. The default.
	AmbiguousRetry OnAmbiguous = "retry"
	// AmbiguousStop fails the task rather than risk a second charge.
	AmbiguousStop OnAmbiguous = "stop"
)

// Reply is a saved response. A task has at most one (I1).
type Reply struct {
	ID           uuid.UUID
	TaskID       uuid.UUID
	Text         string
	Model        string // as the provider reported it
	FinishReason string
	Attempt      int
	SavedAt      time.Time
	Message      string // see Candidate
	// PromptTemplateVersion is that of the template the task was accepted with; empty without one.
	PromptTemplateVersion string
}

// Failure is what an attempt ended with when it brought no accepted reply.
type Failure struct {
	Class   string // llm failure class, or one of the Class* constants here
	Message string // cleaned and cut to MaxFailureText bytes
	Attempt int
}

// Failure classes that the store itself gives; the others come from the provider call (package llm).
const (
	ClassDeadline     = "deadline"     // the task's deadline passed
	ClassAttempts     = "attempts"     // the attempts were spent without any recorded failure
	ClassInterrupted  = "interrupted"  // too many leases ran out
	ClassUnclaimable  = "invalid_task" // the stored request cannot be run
	ClassStopOnUnsure = "ambiguous"    // the request may have run and the task says stop
	ClassInternal     = "internal"     // a defect of ours, recovered
)

// Cost sums the ledger of a task. Amount is in picodollars (1e-12 USD) and nil while any part of it is unknown (I7).
type Cost struct {
	PicoUSD         *int64
	InputTokens     int64
	OutputTokens    int64
	UnknownAttempts int // attempts that may have been charged and of which no usage reached us
}

// Message is what a person wrote, with the replies saved for it.
type Message struct {
	ID        uuid.UUID
	Seq       int64 // position in the conversation; grows, with gaps
	Content   string
	CreatedAt time.Time
	Replies   []Reply // oldest first; the last one is current
}
