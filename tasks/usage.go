package tasks

import (
	"time"

	"github.com/google/uuid"
)

// Period selects attempts by when they began, for sums over the ledger.
type Period struct {
	From, To time.Time // [From, To)
	Provider string    // empty: all
	// Reach is how long before From a task may have been accepted of which an attempt began in the period: the longest
	// deadline there is. Tasks are found by their ids, which begin with the time.
	Reach time.Duration
}

// DayUsage is what the attempts that began on a day have used of a model. Those whose usage was not reported are only
// counted.
type DayUsage struct {
	Day               time.Time // midnight UTC at its beginning
	Model             string    // as reported by the provider, or as asked
	Requests          int64     // attempts of which a usage was reported
	InputTokens       int64     // all of them, cached or not
	CachedInputTokens int64
	OutputTokens      int64
	PicoUSD           int64 // of those that have a price
	Unpriced          int64 // requests that have none
	Unknown           int64 // attempts that may have been charged, and of which nothing is known
}

// AttemptUsage is an attempt with what was reported of it.
type AttemptUsage struct {
	TaskID    uuid.UUID
	Attempt   int
	StartedAt time.Time
	Model     string
	RequestID string // the provider's; empty when it gave none

	InputTokens, CachedInputTokens, OutputTokens int64
	PicoUSD                                      *int64 // nil: unknown
}
