package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

var _ tasks.Spending = (*Store)(nil)

// spend is what an attempt, or a replay, has come to.
type spend struct {
	workspace, conversation string
	document                tasks.Document
	model                   string
	day                     time.Time
	tasks.Spend
}

// Spend implements tasks.Spending. The ledger is summed anew each time.
func (s *Store) Spend(ctx context.Context, q tasks.SpendQuery) (tasks.Spent, error) {
	var out tasks.Spent
	if err := q.Check(); err != nil {
		return out, err
	}
	sums := make(map[tasks.SpendKey]tasks.Spend)
	add := func(x spend) {
		document := tasks.Document{ID: tasks.SpendName(x.document.ID), Version: tasks.SpendName(x.document.Version)}
		if x.workspace != q.Workspace || q.Document != "" && document.ID != tasks.SpendName(tasks.Clean(q.Document)) ||
			!q.From.IsZero() && x.day.Before(q.From) || !q.To.IsZero() && !x.day.Before(q.To) {
			return
		}
		var k tasks.SpendKey
		switch q.By {
		case tasks.SpendByDay:
			k.Day = x.day
		case tasks.SpendByModel:
			k.Model = tasks.SpendName(x.model)
		case tasks.SpendByConversation:
			k.Conversation = x.conversation
		default:
			k.Document = document
		}
		sums[k], out.Total = sums[k].Add(x.Spend), out.Total.Add(x.Spend)
	}
	err := s.transact(ctx, "Spend", func(time.Time) {
		for _, x := range s.spent {
			add(x)
		}
		for _, r := range s.tasks {
			for _, x := range r.spend() {
				add(x)
			}
		}
	})
	if err != nil {
		return tasks.Spent{}, err
	}
	for k, sum := range sums {
		if q.After == nil || compareSpend(k, *q.After) > 0 {
			out.Rows = append(out.Rows, tasks.SpendRow{SpendKey: k, Spend: sum})
		}
	}
	slices.SortFunc(out.Rows, func(a, b tasks.SpendRow) int { return compareSpend(a.SpendKey, b.SpendKey) })
	if limit := page(q.Limit); len(out.Rows) > limit {
		out.Rows = out.Rows[:limit]
		next := out.Rows[limit-1].SpendKey
		out.Next = &next
	}
	return out, nil
}

// FoldSpend implements tasks.Spending. Nothing is kept that could be added to.
func (s *Store) FoldSpend(context.Context, int) (int, error) { return 0, nil }

// spend is what the attempts of the task have come to, without one that is under way.
func (r *row) spend() []spend {
	var out []spend
	for _, a := range r.ledger {
		if a.EndedAt.IsZero() && r.Status == tasks.StatusRunning && a.Version == r.Version {
			continue
		}
		x := r.spendOf(a.Model, a.StartedAt)
		x.Attempts = 1
		x.InputTokens, x.CachedInputTokens = number(a.InputTokens), number(a.CachedInputTokens)
		x.OutputTokens, x.ReasoningTokens = number(a.OutputTokens), number(a.ReasoningTokens)
		x.PicoUSD = number(a.PicoUSD)
		switch {
		case a.PicoUSD != nil || !a.EndedAt.IsZero() && a.WireRequests == 0:
		case a.InputTokens == nil && a.OutputTokens == nil:
			x.UnknownAttempts = 1
		default:
			x.UnpricedAttempts = 1
		}
		accepted := slices.ContainsFunc(r.ledger, func(later *attempt) bool {
			return later.Outcome == tasks.AttemptAccepted && (later.Version == a.Version || later.Recovered == a.Version)
		})
		paid := x.PicoUSD > 0 || x.InputTokens > 0 || x.OutputTokens > 0
		if paid && !accepted && a.Outcome != tasks.AttemptUnknown {
			x.NotAccepted = tasks.SpendPart{Attempts: 1, PicoUSD: x.PicoUSD}
		}
		out = append(out, x)
	}
	return out
}

func (r *row) spendOf(model string, at time.Time) spend {
	return spend{
		workspace: r.Workspace, conversation: r.Conversation, document: r.Document,
		model: model, day: dayOf(r.Workspace, at).midnight,
	}
}

// saved is what a replay of the task saves.
func (r *row) saved(now time.Time) spend {
	x := r.spendOf(r.Model, now)
	x.Saved.Replays = 1
	for _, a := range r.ledger {
		x.model = a.Model
		x.Saved.PicoUSD = tasks.AddAmounts(x.Saved.PicoUSD, number(a.PicoUSD))
	}
	return x
}

func compareSpend(a, b tasks.SpendKey) int {
	return cmp.Or(cmp.Compare(a.Document.ID, b.Document.ID), cmp.Compare(a.Document.Version, b.Document.Version),
		cmp.Compare(a.Model, b.Model), cmp.Compare(a.Conversation, b.Conversation), a.Day.Compare(b.Day))
}

// number is n, or 0 where it is unknown.
func number(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
