package memory

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

var _ tasks.Rearmer = (*Rearmer)(nil)

// Rearmer is the operator's side of a Store, with the account of what operators have done. Safe for concurrent use.
type Rearmer struct {
	s       *Store
	replays map[uuid.UUID]*replay // guarded by the store's lock
}

// NewRearmer begins without any account.
func NewRearmer(s *Store) *Rearmer { return &Rearmer{s: s, replays: make(map[uuid.UUID]*replay)} }

type replay struct {
	tasks.Replay
	rearmed map[uuid.UUID]bool
}

// Look implements tasks.Rearmer.
func (o *Rearmer) Look(ctx context.Context, replay uuid.UUID, items []tasks.Ref) ([]tasks.Look, error) {
	out := make([]tasks.Look, len(items))
	err := o.s.transact(ctx, "Look", func(now time.Time) {
		for i, item := range items {
			out[i] = o.s.look(o.replays[replay], item, now)
		}
	})
	return out, err
}

func (s *Store) look(p *replay, item tasks.Ref, now time.Time) (l tasks.Look) {
	r := s.find(item.Workspace, item.TaskID)
	if r == nil {
		return l
	}
	l.Status, l.Model = r.Status, r.request.Model
	l.Already = p != nil && p.rearmed[r.ID]
	l.InWork = r.Status == tasks.StatusRunning && r.LeaseUntil.After(now)
	l.Stopped = r.Status == tasks.StatusFailed && r.OnAmbiguous == tasks.AmbiguousStop && r.failure != nil && r.failure.Class == tasks.ClassStopOnUnsure
	for _, a := range r.ledger {
		if a.PicoUSD != nil && a.OutputTokens != nil && *a.OutputTokens > 0 {
			l.Priced++
			l.PicoUSD = tasks.AddAmounts(l.PicoUSD, *a.PicoUSD)
		}
	}
	return l
}

// Select implements tasks.Rearmer.
func (o *Rearmer) Select(ctx context.Context, w tasks.Selection, after uuid.UUID, limit int) (found []tasks.Ref, next uuid.UUID, done bool, err error) {
	next, done = after, true
	err = o.s.transact(ctx, "Select", func(now time.Time) {
		for _, id := range o.s.ids {
			if compare(id, after) <= 0 {
				continue
			}
			r := o.s.tasks[id]
			since := r.FinishedAt
			if since.IsZero() {
				since = r.AcceptedAt
			}
			fits := (w.Status == "" || r.Status == w.Status) && (w.Class == "" || r.failure != nil && r.failure.Class == w.Class) &&
				(w.Workspace == "" || r.Workspace == w.Workspace) && (w.Within == 0 || !since.Before(now.Add(-w.Within)))
			if fits && len(found) == limit {
				done = false
				return
			}
			if next = id; fits {
				found = append(found, tasks.Ref{TaskID: id, Workspace: r.Workspace})
			}
		}
	})
	return found, next, done, err
}

// OpenReplay implements tasks.Rearmer.
func (o *Rearmer) OpenReplay(ctx context.Context, scope string) (out tasks.Replay, err error) {
	found := tasks.ErrNotFound
	err = o.s.transact(ctx, "OpenReplay", func(time.Time) {
		if r := o.open(scope); r != nil {
			out, found = r.Replay, nil
		}
	})
	if err == nil {
		err = found
	}
	return out, err
}

func (o *Rearmer) open(scope string) *replay {
	for _, r := range o.replays {
		if r.Scope == scope && r.DoneAt.IsZero() {
			return r
		}
	}
	return nil
}

// BeginReplay implements tasks.Rearmer.
func (o *Rearmer) BeginReplay(ctx context.Context, r tasks.Replay) (out tasks.Replay, err error) {
	err = o.s.transact(ctx, "BeginReplay", func(now time.Time) {
		was := o.open(r.Scope)
		if was == nil {
			r.Actor, r.Reason = tasks.Clean(r.Actor), tasks.Clean(r.Reason)
			r.Rearmed, r.Skipped, r.StartedAt, r.DoneAt = 0, 0, now, time.Time{}
			was = &replay{Replay: r, rearmed: make(map[uuid.UUID]bool)}
			o.replays[r.ID] = was
		}
		out = was.Replay
	})
	return out, err
}

// EndReplay implements tasks.Rearmer.
func (o *Rearmer) EndReplay(ctx context.Context, id uuid.UUID) error {
	return o.s.transact(ctx, "EndReplay", func(now time.Time) {
		if r := o.replays[id]; r != nil && r.DoneAt.IsZero() {
			r.DoneAt = now
		}
	})
}

// Rearm implements tasks.Rearmer.
func (o *Rearmer) Rearm(ctx context.Context, step tasks.RearmStep, terms tasks.RearmTerms) ([]tasks.RearmVerdict, error) {
	out := make([]tasks.RearmVerdict, len(step.Items))
	found := tasks.ErrNotFound
	err := o.s.transact(ctx, "Rearm", func(now time.Time) {
		p := o.replays[step.Replay]
		if p == nil || !p.DoneAt.IsZero() {
			return
		}
		found = nil
		// As the handoffs of one transaction in Postgres, in the order of ids.
		order := make([]int, len(step.Items))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return compare(step.Items[a].TaskID, step.Items[b].TaskID) })
		p.Skipped += step.Skipped
		for _, i := range order {
			out[i] = o.s.rearm(p, step.Items[i], terms, now)
			switch out[i] {
			case tasks.RearmDone:
				p.Rearmed++
			case tasks.RearmAlready:
			default:
				p.Skipped++
			}
		}
		p.Cursor = slices.Clone(step.Cursor)
	})
	if err == nil {
		err = found
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) rearm(p *replay, item tasks.Ref, terms tasks.RearmTerms, now time.Time) tasks.RearmVerdict {
	r := s.find(item.Workspace, item.TaskID)
	if verdict := terms.Judge(s.look(p, item, now)); verdict != tasks.RearmDone {
		return verdict
	}
	if r.Status == tasks.StatusFailed && r.reserve != nil { // it went back when the task failed
		r.day = dayOf(r.Workspace, now)
		s.account(r.day).reserved += *r.reserve
	}
	if r.Status == tasks.StatusFailed {
		r.Status, r.FinishedAt = tasks.StatusQueued, time.Time{}
	}
	r.AvailableAt = now
	if until := now.Add(terms.Deadline); until.After(r.Deadline) {
		r.Deadline = until
	}
	r.MaxAttempts = min(r.MaxAttempts+max(0, terms.Attempts), 1_000_000)
	r.MaxInterruptions = min(r.MaxInterruptions+max(0, terms.Interruptions), 1_000_000)
	if terms.Unsure {
		r.OnAmbiguous = tasks.AmbiguousRetry
	}
	p.rearmed[r.ID] = true
	delete(s.delayed, r.ID)
	s.handOff(r, now)
	r.recovered = now // its row was written: no snapshot from before sees it as lost
	return tasks.RearmDone
}
