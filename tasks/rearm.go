package tasks

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Rearmer lets an operator have tasks run again that have failed, or that nothing brings on. What is re-armed gets a new
// handoff and a visible new budget, in one transaction with the account of who wanted that. It is the only way out of
// StatusFailed; a completed task keeps its reply (I1), and a cancelled one stays cancelled, since somebody wanted that.
type Rearmer interface {
	// Look says what tasks are, and whether the replay has re-armed them; uuid.Nil is none. It changes nothing. Answers
	// stand in the order of the items.
	Look(ctx context.Context, replay uuid.UUID, items []Ref) ([]Look, error)

	// Select pages through the tasks that s describes, by id, beginning behind after. done: there are no more.
	Select(ctx context.Context, s Selection, after uuid.UUID, limit int) (found []Ref, next uuid.UUID, done bool, err error)

	// OpenReplay finds the replay of this scope that has not come to its end. ErrNotFound.
	OpenReplay(ctx context.Context, scope string) (Replay, error)

	// BeginReplay stores a replay. When one of its scope is open, that one is returned instead.
	BeginReplay(ctx context.Context, r Replay) (Replay, error)

	// Rearm gives tasks another go and moves the replay's cursor, in one transaction. A task that this replay has re-armed
	// before is RearmAlready. ErrNotFound: the replay is not there, or has come to its end. It may be repeated.
	Rearm(ctx context.Context, step RearmStep, terms RearmTerms) ([]RearmVerdict, error)

	// EndReplay notes that the replay has come to its end; its scope is free again. Repeating it changes nothing.
	EndReplay(ctx context.Context, id uuid.UUID) error
}

// Look is what a task is, for the plan of a replay.
type Look struct {
	Status Status // empty: there is no such task in that workspace
	InWork bool   // somebody's lease runs
	// Stopped: it has failed because an attempt may have run, and says to stop then. Run again, it may be paid for twice.
	Stopped bool
	Already bool // the replay has re-armed it
	Model   string
	// What the answers to its attempts have cost that are known: how many, and their sum in picodollars.
	Priced  int
	PicoUSD int64
}

// Selection describes tasks. Empty fields do not restrict.
type Selection struct {
	Status    Status
	Class     string // of the last failure
	Workspace string
	Within    time.Duration // finished, or where it is not, accepted, at most this long ago
}

// Replay is the account of an operator's doing.
type Replay struct {
	ID     uuid.UUID
	Kind   string // "range", "tasks" or "rewind"
	Scope  string // the same for the same command
	Actor  string
	Reason string
	Plan   []byte // JSON
	Cursor []byte // JSON

	// The store's part.
	Rearmed, Skipped int64
	StartedAt        time.Time
	DoneAt           time.Time // zero while it is open
}

// RearmStep is a batch of a replay. No task may be in it twice.
type RearmStep struct {
	Replay  uuid.UUID
	Items   []Ref
	Skipped int64  // tasks that were looked at since the last step and not re-armed; for the account
	Cursor  []byte // JSON, where to go on after this step
}

// RearmTerms are what is re-armed, and what it gets.
type RearmTerms struct {
	Failed, Unfinished bool
	// Attempts and Interruptions are added to the task's budget; Deadline is from now, and never shortens what there was.
	Attempts, Interruptions int
	Deadline                time.Duration
	// Unsure re-arms tasks that have Stopped, too, and lets them be called again whenever an attempt may have run.
	Unsure bool
}

// RearmVerdict is what Rearm decided for one task.
type RearmVerdict string

const (
	RearmDone      RearmVerdict = "rearmed"
	RearmAlready   RearmVerdict = "already" // by this replay
	RearmCompleted RearmVerdict = "completed"
	RearmCancelled RearmVerdict = "cancelled"
	RearmInWork    RearmVerdict = "in_work"  // a lease runs: whoever has it brings the task on
	RearmExcluded  RearmVerdict = "excluded" // not of the kinds that the terms name
	RearmStopped   RearmVerdict = "stopped"
	RearmMissing   RearmVerdict = "missing"
)

// Judge says what the terms make of a task.
func (t RearmTerms) Judge(l Look) RearmVerdict {
	switch {
	case l.Status == "":
		return RearmMissing
	case l.Already:
		return RearmAlready
	case l.Status == StatusCompleted:
		return RearmCompleted
	case l.Status == StatusCancelled:
		return RearmCancelled
	case l.InWork:
		return RearmInWork
	case l.Status == StatusFailed && !t.Failed, l.Status != StatusFailed && !t.Unfinished:
		return RearmExcluded
	case l.Stopped && !t.Unsure:
		return RearmStopped
	}
	return RearmDone
}
