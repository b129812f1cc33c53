package dashboard

import (
	"fmt"
	"time"
)

// Unknown is a number that is not known.
const Unknown = -1

// Lag is how far the group is behind on its topic.
type Lag struct {
	At         time.Time
	Group      string
	Topic      string
	State      string // the group's, in Kafka's words
	Members    int
	Offsets    string // where positions are kept
	Status     string // the worst of the partitions
	TotalLag   int64
	MaxSeconds float64
	Complete   bool     // every partition could be read
	Problems   []string // what could not be read beside the partitions
	Partitions []Partition
}

// Partition is one partition. Numbers that are not known are Unknown.
type Partition struct {
	Partition  int32
	Status     string // OK, WARN, NO_COMMIT, REWIND, BLOCKED, STALL, STOP, UNKNOWN
	Why        string // a sentence for a person, where Status is not OK
	Member     string // who has it; empty: nobody
	Committed  int64
	Position   int64
	End        int64
	Lag        int64
	Ahead      int64   // settled beyond the position
	LagSeconds float64 // age of the record at the position
	ETASeconds float64
	Head       *Head // the record that holds the position back; nil: none, or not read
	History    []Point
}

// Head is the record that holds a position back.
type Head struct {
	Offset     int64
	Task       string // empty: it points at none
	AgeSeconds float64
	Attempt    int // Unknown: the store was not asked
	TaskStatus string
}

// Point is the lag of a partition at one moment.
type Point struct {
	At  time.Time
	Lag int64
}

// Count is how often something was counted.
type Count struct {
	Name string
	N    int64
}

// Work is what becomes of tasks.
type Work struct {
	Unfinished      []Count // by status
	UnfinishedBound int64   // counting ends here: a sum that has come to it is at least so much
	Tasks           int64   // the latest tasks, as many as were looked at
	ByStatus        []Count // of them
	Attempts        int64   // the latest attempts, as many as were looked at
	ByOutcome       []Count // of them: accepted, running, not_accepted, or the class of the failure
	Failures        []Failure
}

// Failure is a task that failed for good.
type Failure struct {
	Task      string
	Workspace string
	Class     string
	Message   string
	Attempt   int
	Age       time.Duration
}

// Money is what was spent today (UTC), in picodollars, and what is left of the budgets.
type Money struct {
	Day               time.Time
	Complete          bool  // false: much has not been added up yet, and it is at least this
	PicoUSD           int64 // of what is known
	Attempts          int64
	UnknownAttempts   int64 // may have been charged, and nothing is known of them
	UnpricedAttempts  int64 // their amount is not known
	NotAccepted       int64 // paid for answers that are no reply
	SavedReplays      int64
	Saved             int64 // what replays would have cost
	ByModel           []Amount
	ByWorkspace       []Amount
	Budgets           []Budget
	InputTokens       int64
	OutputTokens      int64
	CachedInputTokens int64
}

// Amount is a part of what was spent.
type Amount struct {
	Name     string
	PicoUSD  int64
	Attempts int64
}

// Budget is a workspace's cap and its day so far, in picodollars.
type Budget struct {
	Workspace string
	PerDay    int64
	Spent     int64
	Reserved  int64
}

// Used is the part of the cap that is spent or reserved, 1 being all of it.
func (b Budget) Used() float64 {
	if b.PerDay <= 0 {
		return 1
	}
	return (float64(b.Spent) + float64(b.Reserved)) / float64(b.PerDay)
}

// Outbox is what waits to become records.
type Outbox struct {
	Pending int64
	Oldest  time.Duration
	Reader  string // the process that reads the first part of it; empty: none
}

// Gate is what the worker of this process says of calls to its provider.
type Gate struct {
	Provider string
	Breaker  string // closed, open or half_open
	Reason   string
	Message  string
	Since    time.Time
	Until    time.Time
	Paused   time.Time // the provider wants no call until then; zero: it says nothing
	Opened   int64
}

// Task is one task with its attempts, without what was said.
type Task struct {
	ID           string    `json:"id"`
	Workspace    string    `json:"workspace"`
	Conversation string    `json:"conversation"`
	Kind         string    `json:"kind"`
	Status       string    `json:"status"`
	Model        string    `json:"model,omitempty"`
	AcceptedAt   time.Time `json:"accepted_at"`
	AvailableAt  time.Time `json:"available_at"`
	Deadline     time.Time `json:"deadline"`
	FinishedAt   time.Time `json:"finished_at,omitzero"`
	LeaseUntil   time.Time `json:"lease_until,omitzero"`
	Worker       string    `json:"worker,omitempty"`
	Attempts     int       `json:"attempts"`
	MaxAttempts  int       `json:"max_attempts"`
	Version      int64     `json:"assignment_version"`
	Interrupted  int       `json:"interruptions"`
	Class        string    `json:"failure_class,omitempty"`
	Message      string    `json:"failure_message,omitempty"`
	PicoUSD      *int64    `json:"picousd"` // null: unknown
	Ledger       []Attempt `json:"ledger"`
}

// Attempt is one call of a task.
type Attempt struct {
	Number    int       `json:"attempt"`
	Version   int64     `json:"assignment_version"`
	Worker    string    `json:"worker"`
	Provider  string    `json:"provider"`
	Model     string    `json:"model"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Outcome   string    `json:"outcome"`
	Class     string    `json:"failure_class,omitempty"`
	Input     *int64    `json:"input_tokens"`
	Output    *int64    `json:"output_tokens"`
	PicoUSD   *int64    `json:"picousd"`
}

// ElsewhereError is a LagSource's answer in a process that does not read the lag.
type ElsewhereError struct {
	Reader string // the process that does; empty: none is known
}

func (e *ElsewhereError) Error() string {
	if e.Reader == "" {
		return "no process reads the lag: is there one with the dispatcher role?"
	}
	return fmt.Sprintf("another process reads the lag: %s", e.Reader)
}
