package sim

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/e2e/history"
	"github.com/fencepost/fencepost/tasks"
)

var _ tasks.Store = (*link)(nil)

// Submit is not in the history as an operation of the store: the client's view of it is, which is what was promised.
func (l *link) Submit(ctx context.Context, items []tasks.Submission) ([]tasks.Submitted, error) {
	return send(ctx, l, request[[]tasks.Submitted]{
		method: "Submit",
		do: func(ctx context.Context) ([]tasks.Submitted, error) {
			out, err := l.database.Store.Submit(ctx, items)
			for i := range out {
				if out[i].Err == nil && !out[i].Replayed {
					l.content[items[i].Request.Content] = out[i].TaskID
				}
			}
			return out, err
		},
		answer: func([]tasks.Submitted, int, *history.Event) {},
	})
}

// Claim implements tasks.Store.
func (l *link) Claim(ctx context.Context, by tasks.Claimer, items []tasks.Ref) ([]tasks.Claimed, error) {
	q := request[[]tasks.Claimed]{method: "Claim", events: make([]history.Event, len(items))}
	for i, item := range items {
		q.events[i] = history.Event{Op: history.Claim, Task: item.TaskID.String(), Workspace: item.Workspace}
	}
	q.do = func(ctx context.Context) ([]tasks.Claimed, error) { return l.database.Store.Claim(ctx, by, items) }
	q.answer = func(out []tasks.Claimed, i int, e *history.Event) {
		c := out[i]
		e.Verdict, e.Status = string(c.Decision), string(c.Status)
		if c.Work != nil {
			e.Version, e.Attempt = c.Work.Version, c.Work.Attempts
		}
		if e.Type != history.Applied {
			return
		}
		if c.Decision == tasks.DecisionClaimed {
			e.LeaseUntil = l.rec.since() + by.Lease
			if c.Work.Interruptions > 0 {
				l.rec.count("takeover")
			}
		}
		l.rec.count("claim: " + string(c.Decision))
	}
	return send(ctx, l, q)
}

// Renew implements tasks.Store.
func (l *link) Renew(ctx context.Context, lease time.Duration, items []tasks.Assignment) ([]tasks.Renewal, error) {
	q := request[[]tasks.Renewal]{method: "Renew", events: make([]history.Event, len(items))}
	for i, item := range items {
		q.events[i] = history.Event{Op: history.Renew, Task: item.TaskID.String(), Workspace: item.Workspace, Version: item.Version}
	}
	q.do = func(ctx context.Context) ([]tasks.Renewal, error) { return l.database.Store.Renew(ctx, lease, items) }
	q.answer = func(out []tasks.Renewal, i int, e *history.Event) {
		e.Verdict = string(out[i])
		if out[i] == tasks.RenewalKept && e.Type == history.Applied {
			e.LeaseUntil = l.rec.since() + lease
		}
	}
	return send(ctx, l, q)
}

// Settle implements tasks.Store.
func (l *link) Settle(ctx context.Context, items []tasks.Settlement) ([]tasks.Settled, error) {
	q := request[[]tasks.Settled]{method: "Settle", events: make([]history.Event, len(items))}
	for i, item := range items {
		q.events[i] = history.Event{
			Op: history.Settle, Task: item.TaskID.String(), Workspace: item.Workspace, Version: item.Version,
			Outcome: string(item.Outcome), Handoff: item.Handoff,
		}
		if item.Outcome == tasks.OutcomeComplete {
			q.events[i].Reply = item.Candidate.ReplyID.String()
		}
		if c := item.Call; c.InputTokens != nil && c.OutputTokens != nil {
			q.events[i].Tokens = &history.Tokens{In: *c.InputTokens, Out: *c.OutputTokens}
		}
	}
	q.do = func(ctx context.Context) ([]tasks.Settled, error) { return l.database.Store.Settle(ctx, items) }
	q.answer = func(out []tasks.Settled, i int, e *history.Event) {
		e.Verdict, e.Status = string(out[i].Verdict), string(out[i].Status)
		if e.Type == history.Applied {
			l.rec.count("settle: " + e.Outcome + " " + e.Verdict)
			if e.Handoff {
				l.rec.count("settle with a handoff")
			}
		}
	}
	return send(ctx, l, q)
}

// Cancel implements tasks.Store.
func (l *link) Cancel(ctx context.Context, workspace string, id uuid.UUID) (tasks.Task, bool, error) {
	type cancelled struct {
		task  tasks.Task
		first bool
		err   error // ErrNotFound is an answer
	}
	out, err := send(ctx, l, request[cancelled]{
		method: "Cancel",
		events: []history.Event{{Op: history.Cancel, Task: id.String(), Workspace: workspace}},
		do: func(ctx context.Context) (cancelled, error) {
			task, first, err := l.database.Store.Cancel(ctx, workspace, id)
			if first && task.Version > 0 {
				l.rec.count("cancel after a claim")
			}
			return cancelled{task, first, err}, nil
		},
		answer: func(c cancelled, _ int, e *history.Event) {
			if e.Status = string(c.task.Status); c.err != nil {
				e.Verdict = "not_found"
			}
		},
	})
	if err == nil {
		err = out.err
	}
	return out.task, out.first, err
}

// Task implements tasks.Store.
func (l *link) Task(ctx context.Context, workspace string, id uuid.UUID) (tasks.Task, error) {
	type found struct {
		task tasks.Task
		err  error
	}
	out, err := send(ctx, l, request[found]{
		method: "Task",
		events: []history.Event{{Op: history.Read, Task: id.String(), Workspace: workspace}},
		do: func(ctx context.Context) (found, error) {
			task, err := l.database.Store.Task(ctx, workspace, id)
			return found{task, err}, nil
		},
		answer: func(f found, _ int, e *history.Event) {
			if f.err != nil {
				e.Verdict = "not_found"
				l.rec.count("not found")
				return
			}
			describe(e, f.task)
		},
	})
	if err == nil {
		err = out.err
	}
	return out.task, err
}

func describe(e *history.Event, t tasks.Task) {
	e.Status, e.Version = string(t.Status), t.Version
	if t.Reply != nil {
		e.Reply = t.Reply.ID.String()
	}
}

// plain is a request that the history does not show.
func plain[T any](ctx context.Context, l *link, method string, do func(ctx context.Context) (T, error)) (T, error) {
	return send(ctx, l, request[T]{method: method, do: do})
}

// Finished implements tasks.Store.
func (l *link) Progress(ctx context.Context, ids []uuid.UUID) ([]tasks.Progress, error) {
	return plain(ctx, l, "Progress", func(ctx context.Context) ([]tasks.Progress, error) { return l.database.Store.Progress(ctx, ids) })
}

func (l *link) Finished(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	return plain(ctx, l, "Finished", func(ctx context.Context) ([]uuid.UUID, error) { return l.database.Store.Finished(ctx, ids) })
}

// Tasks implements tasks.Store.
func (l *link) Tasks(ctx context.Context, f tasks.Filter) ([]tasks.Task, error) {
	return plain(ctx, l, "Tasks", func(ctx context.Context) ([]tasks.Task, error) { return l.database.Store.Tasks(ctx, f) })
}

// Attempts implements tasks.Store.
func (l *link) Attempts(ctx context.Context, workspace string, id uuid.UUID) ([]tasks.Attempt, error) {
	return plain(ctx, l, "Attempts", func(ctx context.Context) ([]tasks.Attempt, error) {
		return l.database.Store.Attempts(ctx, workspace, id)
	})
}

// Conversation implements tasks.Store.
func (l *link) Conversation(ctx context.Context, workspace, name string, after int64, limit int) ([]tasks.Message, error) {
	return plain(ctx, l, "Conversation", func(ctx context.Context) ([]tasks.Message, error) {
		return l.database.Store.Conversation(ctx, workspace, name, after, limit)
	})
}

// KeyByHash implements httpapi.KeyStore.
func (l *link) KeyByHash(ctx context.Context, hash [32]byte) (tasks.Key, error) {
	return plain(ctx, l, "KeyByHash", func(ctx context.Context) (tasks.Key, error) { return l.database.Store.KeyByHash(ctx, hash) })
}

// Note is not in the history: it decides nothing.
func (l *link) Note(ctx context.Context, items []tasks.Note) error {
	_, err := send(ctx, l, request[struct{}]{
		method: "Note",
		do:     func(ctx context.Context) (struct{}, error) { return struct{}{}, l.database.Store.Note(ctx, items) },
		answer: func(struct{}, int, *history.Event) {},
	})
	return err
}

// Histories is not in the history of the simulation, either: it only reads.
func (l *link) Histories(ctx context.Context, limits tasks.HistoryLimits, items []*tasks.Work) ([]tasks.History, error) {
	return send(ctx, l, request[[]tasks.History]{
		method: "Histories",
		do: func(ctx context.Context) ([]tasks.History, error) {
			return l.database.Store.Histories(ctx, limits, items)
		},
		answer: func([]tasks.History, int, *history.Event) {},
	})
}

// Original is not called by what is simulated.
func (l *link) Original(ctx context.Context, workspace string, id uuid.UUID) (tasks.Submission, error) {
	return l.database.Store.Original(ctx, workspace, id)
}
