package tasks

import (
	"time"

	"github.com/google/uuid"
)

// SweepConfig says what of the past is deleted. Idempotency keys go when they have expired and their task is finished: a
// repeat of a submission that is still under way finds its task, however late. Fields that are 0 have their default.
type SweepConfig struct {
	Limit      int           // rows of each kind that one call deletes at most; 1000
	LiveTexts  time.Duration // age of the text of an attempt that does not run any more; 1 h
	BudgetDays time.Duration // age of a day's account of a budget; 90 days
	// Tasks is for how long finished tasks are kept, with what was asked, the reply, the ledger, and the message once
	// nothing regenerates it any more; 0: for ever. A task whose key is still remembered stays.
	Tasks time.Duration
	// After goes on behind this task: Swept.After of the call before, so that tasks which stay are not looked at again.
	After uuid.UUID
	// DryRun deletes nothing and counts what would be, up to Limit of each kind.
	DryRun bool
}

// WithDefaults fills in what is 0.
func (c SweepConfig) WithDefaults() SweepConfig {
	if c.Limit <= 0 {
		c.Limit = 1000
	}
	if c.LiveTexts == 0 {
		c.LiveTexts = time.Hour
	}
	if c.BudgetDays == 0 {
		c.BudgetDays = 90 * 24 * time.Hour
	}
	return c
}

// Swept counts what was deleted, in rows.
type Swept struct {
	Keys       int
	LiveTexts  int // pieces
	BudgetDays int // with what was noted of them and not yet added up
	Tasks      int
	After      uuid.UUID // where the next call goes on among the tasks
	More       bool      // there may be more: a limit was reached
}

// Rows is how many were deleted in all.
func (s Swept) Rows() int { return s.Keys + s.LiveTexts + s.BudgetDays + s.Tasks }
