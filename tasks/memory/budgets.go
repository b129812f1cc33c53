package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

var _ tasks.Budgets = (*Store)(nil)

type budget struct {
	perDay  int64
	updated time.Time
}

type day struct {
	workspace string
	midnight  time.Time
}

type account struct{ spent, reserved int64 }

func dayOf(workspace string, now time.Time) day {
	return day{workspace, now.UTC().Truncate(24 * time.Hour)}
}

// account returns the account of a day, which is opened when there is none.
func (s *Store) account(d day) *account {
	if s.accounts[d] == nil {
		s.accounts[d] = new(account)
	}
	return s.accounts[d]
}

// SetBudget implements tasks.Budgets.
func (s *Store) SetBudget(ctx context.Context, workspace string, perDay *int64) error {
	if err := tasks.CheckBudget(workspace, perDay); err != nil {
		return err
	}
	return s.transact(ctx, "SetBudget", func(now time.Time) {
		delete(s.budgets, workspace)
		if perDay != nil {
			s.budgets[workspace] = budget{*perDay, now}
		}
	})
}

// Budgets implements tasks.Budgets.
func (s *Store) Budgets(ctx context.Context) ([]tasks.Budgeted, error) {
	var out []tasks.Budgeted
	err := s.transact(ctx, "Budgets", func(now time.Time) {
		for workspace, b := range s.budgets {
			d := dayOf(workspace, now)
			a := s.account(d)
			out = append(out, tasks.Budgeted{
				Workspace: workspace, PerDay: b.perDay, Day: d.midnight, Spent: a.spent, Reserved: a.reserved, UpdatedAt: b.updated,
			})
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b tasks.Budgeted) int { return cmp.Compare(a.Workspace, b.Workspace) })
	return out, nil
}

// reserve takes what the item may cost from its workspace's budget, and returns what was taken, and of which day. Nothing
// is taken where there is no budget.
func (s *Store) reserve(item tasks.Submission, now time.Time) (*int64, day, error) {
	b, capped := s.budgets[item.Workspace]
	if !capped {
		return nil, day{}, nil
	}
	d := dayOf(item.Workspace, now)
	a := s.account(d)
	today := tasks.Budgeted{PerDay: b.perDay, Spent: a.spent, Reserved: a.reserved}
	if err := today.Take(item.Reserve); err != nil {
		return nil, day{}, err
	}
	a.reserved = today.Reserved
	return clone(item.Reserve), d, nil
}

// accounted runs do, which may move a task, and carries over to the account of its day what that has changed.
func (s *Store) accounted(workspace string, id [16]byte, do func()) {
	r := s.find(workspace, id)
	if r == nil || r.reserve == nil {
		do()
		return
	}
	ended, before := r.Status.Terminal(), r.charged()
	do()
	for _, a := range r.ledger { // the task has gone on without these
		if a.EndedAt.IsZero() && (a.Version < r.Version || r.Status.Terminal()) {
			a.presumed = *r.reserve
		}
	}
	a := s.account(r.day)
	a.spent = tasks.AddAmounts(a.spent, r.charged()-before)
	if !ended && r.Status.Terminal() {
		a.reserved -= *r.reserve
	}
}

// charged is what the budget has been charged for the task's attempts. What is not known of one that was on the wire
// counts as what was reserved.
func (r *row) charged() int64 {
	var sum int64
	for _, a := range r.ledger {
		amount := a.presumed
		switch {
		case a.EndedAt.IsZero():
		case a.PicoUSD != nil:
			amount = *a.PicoUSD
		case a.WireRequests > 0:
			amount = *r.reserve
		default:
			amount = 0
		}
		sum = tasks.AddAmounts(sum, amount)
	}
	return sum
}
