package tasks

import (
	"context"
	"fmt"
	"math"
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

// CheckBudget says, wrapping ErrInvalid, why there is no such budget.
func CheckBudget(workspace string, perDay *int64) error {
	if err := checkName("workspace", workspace); err != nil {
		return err
	}
	if perDay != nil && *perDay < 0 {
		return fmt.Errorf("%w: a budget of %d picodollars", ErrInvalid, *perDay)
	}
	return nil
}

// AddAmounts sums amounts, and stays at the limit where a server's nonsense of usage would lead beyond it.
func AddAmounts(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
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

// Left is what may still be reserved, at least 0.
func (b Budgeted) Left() int64 {
	return b.PerDay - min(b.PerDay, max(0, AddAmounts(b.Spent, b.Reserved)))
}

// Take reserves what a task may cost at most. ErrUnpriced when that is not known; ErrBudget when too little is left.
func (b *Budgeted) Take(reserve *int64) error {
	if reserve == nil {
		return ErrUnpriced
	}
	if AddAmounts(AddAmounts(b.Spent, b.Reserved), *reserve) > b.PerDay {
		return ErrBudget
	}
	b.Reserved += *reserve
	return nil
}
