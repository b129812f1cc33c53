package tasks

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Store keeps tasks, and is batched by nature: each call is one transaction over all its items, and each item has its
// own outcome. An error of the call itself (ErrUnavailable, a done context) says nothing of any item: the call may be
// repeated. One item that cannot be stored never fails its neighbours. Results stand in the order of the items.
// Implementations are safe for concurrent use; tasks/storetest says what they must do.
type Store interface {
	// Submit stores message, submission, task and handoff of each item, or finds the task its key is bound to.
	Submit(ctx context.Context, items []Submission) ([]Submitted, error)

	// Claim takes an assignment of each task that is free, counting the attempt (I5), and says of the others what they are.
	Claim(ctx context.Context, by Claimer, items []Ref) ([]Claimed, error)

	// Renew prolongs the leases of running assignments to lease from now.
	Renew(ctx context.Context, lease time.Duration, items []Assignment) ([]Renewal, error)

	// Note writes into the ledger what is known of running attempts before their end, so that it outlives the worker.
	// Attempts that have ended are left as they are.
	Note(ctx context.Context, items []Note) error

	// Histories reads what was said in the conversations before the messages of claimed tasks, within the limits.
	Histories(ctx context.Context, limits HistoryLimits, items []*Work) ([]History, error)

	// Settle ends assignments, each judged by version and lease after the row's lock is held (I1, I4), and writes the
	// ledger whatever is decided (I7). Repeating a settle that was accepted is accepted again.
	Settle(ctx context.Context, items []Settlement) ([]Settled, error)

	// Cancel refuses every later settle of the task. It returns the task as it then stands, and false when it was
	// terminal already. ErrNotFound.
	Cancel(ctx context.Context, workspace string, id uuid.UUID) (Task, bool, error)

	// Task reads one task with its reply, failure and cost. ErrNotFound.
	Task(ctx context.Context, workspace string, id uuid.UUID) (Task, error)

	// Finished returns those of the tasks that are terminal. It is what waiting is built on: one query for all waiters.
	Finished(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error)

	// Tasks reads a page of a workspace's tasks, newest first.
	Tasks(ctx context.Context, f Filter) ([]Task, error)

	// Attempts reads the ledger of a task, oldest first. ErrNotFound.
	Attempts(ctx context.Context, workspace string, id uuid.UUID) ([]Attempt, error)

	// Original reads what a task was asked, as a submission without key, ids of its own and fingerprint, to be asked again.
	// ErrNotFound.
	Original(ctx context.Context, workspace string, id uuid.UUID) (Submission, error)

	// Conversation reads a page of a conversation's messages with Seq > after, oldest first. An unknown one is empty.
	Conversation(ctx context.Context, workspace, conversation string, after int64, limit int) ([]Message, error)
}

// Filter selects tasks. The zero value of a field does not restrict.
type Filter struct {
	Workspace    string // empty: all workspaces; only for operators
	Status       Status
	Conversation string
	Before       uuid.UUID // tasks with smaller ids, which are older
	Limit        int       // 100 when 0; at most 1000
}

// Ref points at a task, as a record does.
type Ref struct {
	TaskID    uuid.UUID
	Workspace string
}

// Claimer is who claims, and on which terms.
type Claimer struct {
	Worker string        // unique for each process start
	Lease  time.Duration // how long an assignment lives without renewal
	// ParkMax: a task that is not due within it gets a delayed handoff instead of being waited for.
	ParkMax time.Duration
	// Provider is written into the attempt's ledger row.
	Provider string
	// Recovers: the claimer can look up what became of a call. Without it a task that says AmbiguousStop, and of which an
	// attempt's fate is unknown, is failed for good instead of claimed.
	Recovers bool
	// Hold, when it is not 0, claims nothing, since the provider takes no calls: a task that could be claimed is NotDue for
	// Hold, or until its deadline where that is sooner. Tasks that are finished, spent or leased are judged as always.
	Hold time.Duration
}

// Decision is what Claim says of one task.
type Decision string

const (
	// Claimed: the caller owns the assignment, and the attempt is counted.
	DecisionClaimed Decision = "claimed"
	// Finished: the task is terminal; also when this claim found its budget or deadline spent and failed it for good.
	DecisionFinished Decision = "finished"
	// Leased: someone else's lease runs for Wait more.
	DecisionLeased Decision = "leased"
	// NotDue: the task may be claimed after Wait, which is at most ParkMax, or Claimer.Hold where that keeps it back.
	DecisionNotDue Decision = "not_due"
	// HandedOff: not due within ParkMax; a handoff that is due with the task has been stored.
	DecisionHandedOff Decision = "handed_off"
	// Missing: there is no such task in that workspace.
	DecisionMissing Decision = "missing"
)

// Claimed is Claim's answer for one task.
type Claimed struct {
	Decision Decision
	Status   Status        // of a known task, after the claim
	Wait     time.Duration // Leased, NotDue
	Work     *Work         // only DecisionClaimed
}

// Work is what an assignment is about: all that the call needs.
type Work struct {
	Assignment
	Budget       // with this attempt counted
	Conversation string
	MessageID    uuid.UUID
	Request      Request
	OnAmbiguous  OnAmbiguous
	Remaining    time.Duration // until the deadline, when it was claimed
	Queued       time.Duration // from acceptance (or the time it became due) to the claim
	Lost         *Lost         // the latest attempt whose fate is unknown; nil: there is none
}

// Lost is an earlier attempt that may have run at the provider, and whose answer has not been heard: it was never ended,
// or ended as ambiguous or cancelled without a usage.
type Lost struct {
	Version  int64
	Attempt  int
	Provider string
	Ref      string        // as noted; empty when nothing was
	Request  []byte        // the request's hash as noted; nil when it was not
	Age      time.Duration // since its claim
}

// Note is what is known of a running attempt.
type Note struct {
	Assignment
	Ref     string // what the provider's answer can be looked up by; empty leaves what was noted
	Request []byte // a hash of the request; nil leaves what was noted
}

// HistoryLimits bound what is read of a conversation.
type HistoryLimits struct {
	Turns int
	Bytes int // of messages and replies together
}

// History is what was said in a conversation before a message: the longest end of it that is within the limits.
type History struct {
	Turns   []Turn // oldest first
	Dropped int    // earlier turns that were left out; counted up to MaxHistoryDropped
}

// MaxHistoryDropped is where the counting of turns that were left out ends.
const MaxHistoryDropped = 1000

// Turn is a message with its current reply. Reply is empty where none was saved.
type Turn struct {
	Content string
	Reply   string
}

// Assignment is the right to work on a task.
type Assignment struct {
	TaskID    uuid.UUID
	Workspace string
	Version   int64
}

// Renewal is Renew's answer for one assignment.
type Renewal string

const (
	RenewalKept Renewal = "kept"
	// RenewalLost: for good (expired, taken over, settled, cancelled); its call must stop.
	RenewalLost Renewal = "lost"
	// RenewalHeld: somebody holds the task's row and nothing is decided; the lease is what it was.
	RenewalHeld Renewal = "held"
)

// Outcome is what an assignment ended with.
type Outcome string

const (
	OutcomeComplete Outcome = "complete" // save Candidate as the reply
	OutcomeRetry    Outcome = "retry"    // queue the task again, due after RetryAfter
	OutcomeFail     Outcome = "fail"     // fail the task for good
	// OutcomeRelease hands back an assignment whose call was never begun: the attempt is not counted, the task is due at once.
	OutcomeRelease Outcome = "release"
)

// Settlement asks for the end of one assignment.
type Settlement struct {
	Assignment
	Outcome    Outcome
	Candidate  Candidate     // OutcomeComplete
	Failure    Failure       // OutcomeRetry, OutcomeFail; its Attempt is the store's to fill
	RetryAfter time.Duration // OutcomeRetry
	// Handoff stores a delayed handoff with the retry, so that the record need not be waited for.
	Handoff bool
	// Call is what the attempt did at the provider; it goes into the ledger whatever is decided.
	Call Call
	// Place, when it is not zero, is stored as settled in the same transaction if the settle ends the record: Settled.Ended,
	// or an accepted retry with Handoff. Its owner epoch is judged under its row's lock, apart from the assignment: a stale
	// one refuses the place only.
	Place Place
}

// Candidate is what a provider returned. It becomes the reply only when the settle is accepted.
type Candidate struct {
	ReplyID      uuid.UUID // UUIDv7, chosen by the caller
	Text         string
	Model        string
	FinishReason string
	Message      string // JSON: the whole message of a provider that speaks OpenAI's language, where it is more than text; else empty
}

// Call is the ledger's part of an attempt.
type Call struct {
	WireRequests      int
	ProviderRequestID string
	Model             string // as reported, or as asked
	InputTokens       *int64 // all of them, cached or not; nil: unknown
	OutputTokens      *int64
	CachedInputTokens *int64 // the part of InputTokens that was read from the provider's cache
	ReasoningTokens   *int64 // the part of OutputTokens that nobody sees
	PicoUSD           *int64 // nil: unknown
	PriceVersion      string // of the price that PicoUSD was taken at; empty without one
	// Recovered, when it is not 0, is the version of the earlier attempt that had made this answer. Tokens, amount and the
	// provider's request id are then written to that attempt, where they are not known yet, and this one costs nothing.
	Recovered      int64
	HistoryTurns   int // turns of the conversation that were sent along
	HistoryDropped int // turns that were left out
}

// Verdict is what Settle decided for one assignment.
type Verdict string

const (
	VerdictAccepted  Verdict = "accepted"
	VerdictExpired   Verdict = "lease_expired" // this version's lease ran out before the settle held the lock
	VerdictTakenOver Verdict = "taken_over"    // a later version exists
	VerdictCancelled Verdict = "cancelled"
	VerdictTerminal  Verdict = "terminal" // completed or failed by another assignment
	VerdictDeadline  Verdict = "deadline" // a reply past the task's deadline: the task is now failed
	VerdictMissing   Verdict = "missing"
	VerdictInvalid   Verdict = "invalid" // this item cannot be stored; settle it as OutcomeFail instead
	VerdictHeld      Verdict = "held"    // somebody holds the task's row: nothing is decided, settle it again
)

// Settled is Settle's answer for one assignment.
type Settled struct {
	Verdict Verdict
	Status  Status // the task's status after the settle
	Err     error  // VerdictInvalid: why, wrapping ErrInvalid
	// Fenced: the place was not stored, because its owner epoch is not the partition's any more.
	Fenced bool
}

// Ended reports whether the record that pointed at the task has nothing left to wait for. After a refused settle of a
// task that is not terminal, the task is someone else's, and the record must be claimed again to learn what it comes to.
func (s Settled) Ended() bool { return s.Status.Terminal() || s.Verdict == VerdictMissing }

// Attempt is a row of the ledger: one execution under one assignment.
type Attempt struct {
	Number       int
	Version      int64
	Worker       string
	Provider     string
	StartedAt    time.Time
	EndedAt      time.Time // zero while it runs, or when nothing was heard of it again
	Outcome      AttemptOutcome
	FailureClass string
	// RecoveredAttempt is the number of the attempt whose answer this one has brought: see Call.Recovered. 0: none.
	RecoveredAttempt int
	Call
}

// AttemptOutcome is what the ledger says of an attempt.
type AttemptOutcome string

const (
	AttemptAccepted    AttemptOutcome = "accepted"     // its answer is the reply
	AttemptNotAccepted AttemptOutcome = "not_accepted" // it answered, or ended, after it had lost the right to
	AttemptFailed      AttemptOutcome = "failed"
	AttemptUnknown     AttemptOutcome = "unknown" // running, or never heard of again
)
