package tasks

import (
	"context"
	"time"
)

// Budgets keeps the caps on what workspaces may spend in a day (UTC, by the store's clock). Submit takes what a task may
// cost at most from the budget of the day, in the transaction that accepts it; what is then really spent is charged to
// that day when attempts are settled, and what is left goes back when the task ends. An attempt whose cost is unknown is
// charged as much as was reserved. A running task is never stopped for money, so that only retries can exceed a cap.
type Budgets interface {
	// SetBudget sets a workspace's cap in picodollars; nil removes it.
	SetBudget(ctx context.Context, workspace string, perDay *int64) error

	// Budgets lists the caps with what was spent and reserved today, by workspace.
	Budgets(ctx context.Context) ([]Budgeted, error)
}

// Budgeted is a workspace's cap and its day so far, in picodollars.
type Budgeted struct {
	Workspace string
	PerDay    int64
	Day       time.Time // midnight UTC at its beginning
	Spent     int64
	Reserved  int64
	UpdatedAt time.Time
}
