package memory

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Settle implements tasks.Store.
func (s *Store) Settle(ctx context.Context, items []tasks.Settlement) ([]tasks.Settled, error) {
	out := make([]tasks.Settled, len(items))
	err := s.transact(ctx, "Settle", func(now time.Time) {
		for i, item := range items {
			s.accounted(item.Workspace, item.TaskID, func() { out[i] = s.settle(item, now) })
			if !item.Place.Zero() && ended(item, out[i]) {
				out[i].Fenced = !s.keep(item.Place)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ended reports whether the settle ended the record: its task ended, or the handoff stands for it from now on.
func ended(item tasks.Settlement, s tasks.Settled) bool {
	return s.Ended() || s.Verdict == tasks.VerdictAccepted && item.Outcome == tasks.OutcomeRetry && item.Handoff
}

func (s *Store) settle(item tasks.Settlement, now time.Time) tasks.Settled {
	r := s.find(item.Workspace, item.TaskID)
	if r == nil {
		return tasks.Settled{Verdict: tasks.VerdictMissing}
	}
	if err := item.Check(); err != nil {
		return tasks.Settled{Verdict: tasks.VerdictInvalid, Status: r.Status, Err: err}
	}
	if r.repeats(item) {
		return tasks.Settled{Verdict: tasks.VerdictAccepted, Status: r.Status}
	}
	verdict := r.judge(item, now)
	outcome := tasks.AttemptNotAccepted
	switch verdict {
	case tasks.VerdictDeadline:
		r.fail(tasks.ClassDeadline, "the reply came after the deadline", now)
	case tasks.VerdictAccepted:
		outcome = s.accept(r, item, now)
	}
	r.record(item, outcome, now)
	return tasks.Settled{Verdict: verdict, Status: r.Status}
}

// judge says whether the assignment may settle.
func (r *row) judge(item tasks.Settlement, now time.Time) tasks.Verdict {
	switch {
	case r.Status == tasks.StatusCancelled:
		return tasks.VerdictCancelled
	case r.Status.Terminal():
		return tasks.VerdictTerminal
	case r.Version != item.Version || r.Status != tasks.StatusRunning:
		return tasks.VerdictTakenOver
	case !r.LeaseUntil.After(now):
		return tasks.VerdictExpired
	case item.Outcome == tasks.OutcomeComplete && !r.Deadline.After(now):
		return tasks.VerdictDeadline
	}
	return tasks.VerdictAccepted
}

// repeats reports whether this very settle has been accepted before, so that its caller only missed the answer.
func (r *row) repeats(item tasks.Settlement) bool {
	a := r.attempt(item.Version)
	switch item.Outcome {
	case tasks.OutcomeComplete:
		return a != nil && a.Outcome == tasks.AttemptAccepted && r.reply.ID == item.Candidate.ReplyID
	case tasks.OutcomeFail:
		return a != nil && a.Outcome == tasks.AttemptFailed && r.Status == tasks.StatusFailed && r.Version == item.Version
	case tasks.OutcomeRetry:
		return a != nil && a.Outcome == tasks.AttemptFailed && (r.Status != tasks.StatusFailed || r.Version != item.Version)
	case tasks.OutcomeRelease:
		return a == nil && item.Version >= 1 && item.Version <= r.Version // only a release takes a row out of the ledger
	}
	return false
}

// accept makes the move, and returns what the ledger says of the attempt.
func (s *Store) accept(r *row, item tasks.Settlement, now time.Time) tasks.AttemptOutcome {
	switch item.Outcome {
	case tasks.OutcomeComplete:
		r.reply = &tasks.Reply{
			ID: item.Candidate.ReplyID, TaskID: r.ID, Text: tasks.Clean(item.Candidate.Text),
			Model: tasks.Clean(item.Candidate.Model), FinishReason: tasks.Clean(item.Candidate.FinishReason),
			Attempt: r.Attempts, SavedAt: now, Message: tasks.Clean(item.Candidate.Message), PromptTemplateVersion: r.request.PromptTemplateVersion,
		}
		m := s.messages[r.MessageID]
		m.Replies = append(m.Replies, *r.reply)
		r.end(tasks.StatusCompleted, now)
		return tasks.AttemptAccepted
	case tasks.OutcomeFail:
		r.fail(item.Failure.Class, item.Failure.Message, now)
	case tasks.OutcomeRetry:
		r.failed(item.Failure.Class, item.Failure.Message)
		r.Status, r.LeaseUntil, r.AvailableAt = tasks.StatusQueued, time.Time{}, now.Add(max(0, item.RetryAfter))
		if item.Handoff {
			s.delayed[r.ID] = r.AvailableAt
		}
	case tasks.OutcomeRelease:
		r.Status, r.LeaseUntil = tasks.StatusQueued, time.Time{}
		r.Attempts--
		r.ledger = slices.DeleteFunc(r.ledger, func(a *attempt) bool { return a.Version == item.Version })
	}
	return tasks.AttemptFailed
}

// record writes the ledger, unless the attempt's row has ended or is gone. What an earlier attempt is known by now to have
// cost is written there.
func (r *row) record(item tasks.Settlement, outcome tasks.AttemptOutcome, now time.Time) {
	call := reported(item.Call)
	if earlier := r.attempt(call.Recovered); earlier != nil && earlier.InputTokens == nil && item.Outcome != tasks.OutcomeRelease {
		earlier.regain(call, now)
	}
	a := r.attempt(item.Version)
	if a == nil || !a.EndedAt.IsZero() {
		return
	}
	a.EndedAt, a.Outcome, a.settled = now, outcome, true
	if item.Outcome != tasks.OutcomeComplete {
		a.FailureClass = tasks.Clean(item.Failure.Class)
	}
	if call.Model == "" {
		call.Model = a.Model // as asked
	}
	if call.Recovered != 0 {
		call.InputTokens, call.OutputTokens, call.PicoUSD = new(int64), new(int64), new(int64)
		call.CachedInputTokens, call.ReasoningTokens = new(int64), new(int64)
		call.ProviderRequestID, call.PriceVersion = "", ""
	}
	a.Call = call
}

// regain writes what a later attempt has found out. Without a usage it may still be told by the attempt itself.
func (a *attempt) regain(call tasks.Call, now time.Time) {
	if call.InputTokens != nil {
		if a.Outcome == tasks.AttemptUnknown {
			a.Outcome = tasks.AttemptNotAccepted
		}
		if a.EndedAt.IsZero() {
			a.EndedAt = now
		}
	}
	a.WireRequests = max(a.WireRequests, 1)
	if a.ProviderRequestID == "" {
		a.ProviderRequestID = call.ProviderRequestID
	}
	a.InputTokens, a.OutputTokens, a.PicoUSD = clone(call.InputTokens), clone(call.OutputTokens), clone(call.PicoUSD)
	a.CachedInputTokens, a.ReasoningTokens = clone(call.CachedInputTokens), clone(call.ReasoningTokens)
	a.PriceVersion = call.PriceVersion
}

// reported is a copy that shares nothing with c and is storable.
func reported(c tasks.Call) tasks.Call {
	c.WireRequests, c.HistoryTurns, c.HistoryDropped = max(0, c.WireRequests), max(0, c.HistoryTurns), max(0, c.HistoryDropped)
	c.ProviderRequestID, c.Model, c.PriceVersion = tasks.Clean(c.ProviderRequestID), tasks.Clean(c.Model), tasks.Clean(c.PriceVersion)
	c.InputTokens, c.OutputTokens, c.PicoUSD = clone(c.InputTokens), clone(c.OutputTokens), clone(c.PicoUSD)
	c.CachedInputTokens, c.ReasoningTokens = clone(c.CachedInputTokens), clone(c.ReasoningTokens)
	return c
}

// Cancel implements tasks.Store.
func (s *Store) Cancel(ctx context.Context, workspace string, id uuid.UUID) (tasks.Task, bool, error) {
	var task tasks.Task
	var cancelled bool
	found := tasks.ErrNotFound
	err := s.transact(ctx, "Cancel", func(now time.Time) {
		r := s.find(workspace, id)
		if r == nil {
			return
		}
		if found = nil; !r.Status.Terminal() {
			s.accounted(workspace, id, func() { r.end(tasks.StatusCancelled, now) })
			cancelled = true
		}
		task = r.view()
	})
	if err == nil {
		err = found
	}
	if err != nil {
		return tasks.Task{}, false, err
	}
	return task, cancelled, nil
}
