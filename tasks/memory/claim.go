package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// Claim implements tasks.Store.
func (s *Store) Claim(ctx context.Context, by tasks.Claimer, items []tasks.Ref) ([]tasks.Claimed, error) {
	out := make([]tasks.Claimed, len(items))
	by.Worker, by.Provider = tasks.Cut(by.Worker, tasks.MaxName), tasks.Cut(by.Provider, tasks.MaxName)
	err := s.transact(ctx, "Claim", func(now time.Time) {
		for i, item := range items {
			s.accounted(item.Workspace, item.TaskID, func() { out[i] = s.claim(by, item, now) })
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) claim(by tasks.Claimer, item tasks.Ref, now time.Time) tasks.Claimed {
	r := s.find(item.Workspace, item.TaskID)
	if r == nil {
		return tasks.Claimed{Decision: tasks.DecisionMissing}
	}
	says := func(d tasks.Decision, wait time.Duration) tasks.Claimed {
		return tasks.Claimed{Decision: d, Status: r.Status, Wait: wait}
	}
	if r.Status.Terminal() {
		return says(tasks.DecisionFinished, 0)
	}
	overrun := 0
	if r.Status == tasks.StatusRunning {
		if wait := r.LeaseUntil.Sub(now); wait > 0 {
			return says(tasks.DecisionLeased, wait)
		}
		overrun = 1
	}
	r.Interruptions += overrun
	lost := r.lost()
	switch {
	case r.Interruptions > r.MaxInterruptions:
		r.fail(tasks.ClassInterrupted, fmt.Sprintf("%d leases ran out", r.Interruptions), now)
		return says(tasks.DecisionFinished, 0)
	case !r.Deadline.After(now):
		r.fail(tasks.ClassDeadline, "the deadline passed", now)
		return says(tasks.DecisionFinished, 0)
	case r.AttemptsSpent() && r.failure != nil:
		r.end(tasks.StatusFailed, now)
		return says(tasks.DecisionFinished, 0)
	case r.AttemptsSpent():
		r.fail(tasks.ClassAttempts, "every attempt was begun and none was heard of again", now)
		return says(tasks.DecisionFinished, 0)
	case lost != nil && r.OnAmbiguous == tasks.AmbiguousStop && !by.Recovers:
		r.fail(tasks.ClassStopOnUnsure, fmt.Sprintf("attempt %d may have run at the provider, and the task says to stop then", lost.Number), now)
		r.failure.Attempt = lost.Number
		return says(tasks.DecisionFinished, 0)
	}
	if wait := r.AvailableAt.Sub(now); wait > by.ParkMax {
		s.delayed[r.ID] = r.AvailableAt
		return says(tasks.DecisionHandedOff, 0)
	} else if wait > 0 {
		return says(tasks.DecisionNotDue, wait)
	}
	if by.Hold > 0 {
		r.Interruptions -= overrun
		return says(tasks.DecisionNotDue, min(by.Hold, r.Deadline.Sub(now)))
	}
	r.Status, r.LeaseUntil, r.Worker = tasks.StatusRunning, now.Add(by.Lease), by.Worker
	r.Version++
	r.Attempts++
	r.ledger = append(r.ledger, &attempt{Attempt: tasks.Attempt{
		Number: r.Attempts, Version: r.Version, Worker: by.Worker, Provider: by.Provider, StartedAt: now,
		Outcome: tasks.AttemptUnknown, Call: tasks.Call{Model: r.request.Model},
	}})
	answer := says(tasks.DecisionClaimed, 0)
	answer.Work = &tasks.Work{
		Assignment:   tasks.Assignment{TaskID: r.ID, Workspace: r.Workspace, Version: r.Version},
		Budget:       r.Budget,
		Conversation: r.Conversation, MessageID: r.MessageID,
		Request: clean(r.request), OnAmbiguous: r.OnAmbiguous,
		Remaining: r.Deadline.Sub(now), Queued: now.Sub(r.AvailableAt),
	}
	if lost != nil {
		answer.Work.Lost = &tasks.Lost{
			Version: lost.Version, Attempt: lost.Number, Provider: lost.Provider, Ref: lost.ref,
			Request: slices.Clone(lost.request), Age: now.Sub(lost.StartedAt),
		}
	}
	return answer
}

// lost returns the latest attempt of a task that nobody holds whose fate is unknown, or nil.
func (r *row) lost() *attempt {
	for _, a := range slices.Backward(r.ledger) {
		unheard := a.EndedAt.IsZero() || a.WireRequests > 0 &&
			(a.FailureClass == tasks.ClassStopOnUnsure || a.FailureClass == "cancelled")
		recovered := slices.ContainsFunc(r.ledger, func(later *attempt) bool { return later.Recovered == a.Version })
		if unheard && a.InputTokens == nil && !recovered {
			return a
		}
	}
	return nil
}

// Renew implements tasks.Store.
func (s *Store) Renew(ctx context.Context, lease time.Duration, items []tasks.Assignment) ([]tasks.Renewal, error) {
	out := make([]tasks.Renewal, len(items))
	err := s.transact(ctx, "Renew", func(now time.Time) {
		for i, item := range items {
			r := s.find(item.Workspace, item.TaskID)
			if r == nil || r.Status != tasks.StatusRunning || r.Version != item.Version || !r.LeaseUntil.After(now) {
				out[i] = tasks.RenewalLost
				continue
			}
			r.LeaseUntil, out[i] = now.Add(lease), tasks.RenewalKept
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
