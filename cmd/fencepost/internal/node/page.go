package node

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/offsets/dashboard"
	"github.com/fencepost/fencepost/offsets/lag"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
)

const (
	recentLooked   = 10_000 // tasks and attempts that the page sums up
	recentFailures = 20
)

// errStarting: the parts are not there yet, and may be read by nobody but the start.
var errStarting = errors.New("the process is starting; /readyz says what it waits for")

// pageSources are where the page's numbers come from.
func (n *Node) pageSources() dashboard.Sources {
	s := dashboard.Sources{Lag: pageLag{n}, Work: pageWork{n}, Money: pageMoney{n}, Outbox: pageOutbox{n}, Tasks: pageTasks{n}}
	if n.config.Gate != nil && n.config.has(Worker) {
		s.Gate = pageGate{n.config.Gate, n.config.Provider.Name()}
	}
	return s
}

type pageLag struct{ n *Node }

// Lag implements dashboard.LagSource.
func (p pageLag) Lag(ctx context.Context) (dashboard.Lag, error) {
	if !p.n.ready.running() {
		return dashboard.Lag{}, errStarting
	}
	err := lag.ErrNotElected
	var report lag.Report
	if p.n.lag != nil {
		report, err = p.n.lag.Report(ctx)
	}
	switch {
	case errors.Is(err, lag.ErrNotElected):
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		reader, err := postgres.NewOutbox(p.n.store.Pool()).Leader(ctx)
		if err != nil {
			return dashboard.Lag{}, err
		}
		return dashboard.Lag{}, &dashboard.ElsewhereError{Reader: reader}
	case err != nil:
		return dashboard.Lag{}, err
	}
	return pageReport(report, p.n.lag.History().All()), nil
}

func pageReport(r lag.Report, history map[int32][]lag.Sample) dashboard.Lag {
	out := dashboard.Lag{At: r.At, Group: r.Group, Topic: r.Topic, State: r.State, Members: r.Members, Offsets: r.Offsets,
		Status: string(r.Status), TotalLag: int64(r.TotalLag), MaxSeconds: float64(r.MaxSeconds), Complete: r.Complete, Problems: r.Problems}
	for _, p := range r.Partitions {
		q := dashboard.Partition{Partition: p.Partition, Status: string(p.Status), Why: p.Why, Committed: int64(p.Committed), Position: int64(p.Position),
			End: int64(p.End), Lag: int64(p.Lag), Ahead: int64(p.SettledAhead), LagSeconds: float64(p.LagSeconds), ETASeconds: float64(p.ETASeconds)}
		if q.Member = p.Member; p.Host != "" {
			q.Member = p.ClientID + " at " + p.Host
		}
		if h := p.Head; h != nil {
			q.Head = &dashboard.Head{Offset: int64(h.Offset), Task: h.Task, AgeSeconds: float64(h.AgeSeconds), Attempt: dashboard.Unknown, TaskStatus: h.TaskStatus}
			if h.Attempt != nil {
				q.Head.Attempt = *h.Attempt
			}
		}
		for _, s := range history[p.Partition] {
			q.History = append(q.History, dashboard.Point{At: s.At, Lag: int64(s.Lag)})
		}
		out.Partitions = append(out.Partitions, q)
	}
	return out
}

type pageWork struct{ n *Node }

// Work implements dashboard.WorkSource.
func (p pageWork) Work(ctx context.Context) (dashboard.Work, error) {
	if !p.n.ready.running() {
		return dashboard.Work{}, errStarting
	}
	out := dashboard.Work{UnfinishedBound: maxCounted}
	counts, err := p.n.store.UnfinishedByStatus(ctx, maxCounted)
	if err != nil {
		return out, err
	}
	for _, s := range []tasks.Status{tasks.StatusQueued, tasks.StatusRunning} {
		out.Unfinished = append(out.Unfinished, dashboard.Count{Name: string(s), N: int64(counts[s])})
	}
	recent, err := p.n.store.Recent(ctx, recentLooked, recentFailures)
	if err != nil {
		return out, err
	}
	out.Tasks, out.Attempts = int64(recent.Tasks), int64(recent.Attempts)
	for s, n := range recent.ByStatus {
		out.ByStatus = append(out.ByStatus, dashboard.Count{Name: string(s), N: int64(n)})
	}
	for o, n := range recent.ByOutcome {
		out.ByOutcome = append(out.ByOutcome, dashboard.Count{Name: o, N: int64(n)})
	}
	for _, f := range recent.Failures {
		out.Failures = append(out.Failures, dashboard.Failure{Task: f.TaskID.String(), Workspace: f.Workspace, Class: f.Class, Message: f.Message, Attempt: f.Attempt, Age: f.Age})
	}
	return out, nil
}

type pageMoney struct{ n *Node }

// Money implements dashboard.MoneySource.
func (p pageMoney) Money(ctx context.Context) (dashboard.Money, error) {
	if !p.n.ready.running() {
		return dashboard.Money{}, errStarting
	}
	today, err := p.n.store.SpentToday(ctx)
	if err != nil {
		return dashboard.Money{}, err
	}
	budgets, err := p.n.store.Budgets(ctx)
	if err != nil {
		return dashboard.Money{}, err
	}
	t := today.Total
	out := dashboard.Money{Day: today.Day, Complete: today.Complete, PicoUSD: t.PicoUSD, Attempts: t.Attempts, UnknownAttempts: t.UnknownAttempts, UnpricedAttempts: t.UnpricedAttempts,
		NotAccepted: t.NotAccepted.PicoUSD, SavedReplays: t.Saved.Replays, Saved: t.Saved.PicoUSD,
		InputTokens: t.InputTokens, OutputTokens: t.OutputTokens, CachedInputTokens: t.CachedInputTokens,
		ByModel: pageAmounts(today.ByModel), ByWorkspace: pageAmounts(today.ByWorkspace)}
	for _, b := range budgets {
		out.Budgets = append(out.Budgets, dashboard.Budget{Workspace: b.Workspace, PerDay: b.PerDay, Spent: b.Spent, Reserved: b.Reserved})
	}
	return out, nil
}

func pageAmounts(of map[string]tasks.Spend) []dashboard.Amount {
	out := make([]dashboard.Amount, 0, len(of))
	for name, s := range of {
		out = append(out, dashboard.Amount{Name: name, PicoUSD: s.PicoUSD, Attempts: s.Attempts})
	}
	return out
}

type pageOutbox struct{ n *Node }

// Outbox implements dashboard.OutboxSource.
func (p pageOutbox) Outbox(ctx context.Context) (out dashboard.Outbox, err error) {
	if !p.n.ready.running() {
		return out, errStarting
	}
	outbox := postgres.NewOutbox(p.n.store.Pool())
	if out.Pending, out.Oldest, err = outbox.Pending(ctx); err != nil {
		return out, err
	}
	out.Reader, err = outbox.Leader(ctx)
	return out, err
}

type pageGate struct {
	gate     *llm.Gate
	provider string
}

// Gate implements dashboard.GateSource.
func (p pageGate) Gate() dashboard.Gate {
	s := p.gate.State()
	return dashboard.Gate{Provider: p.provider, Breaker: s.Breaker, Reason: s.Reason, Message: s.Message, Since: s.Since, Until: s.Until, Paused: s.PausedUntil, Opened: s.Opened}
}

type pageTasks struct{ n *Node }

// Task implements dashboard.TaskSource.
func (p pageTasks) Task(ctx context.Context, text string) (dashboard.Task, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return dashboard.Task{}, dashboard.ErrNoTask
	}
	if !p.n.ready.running() {
		return dashboard.Task{}, errStarting
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	workspace, err := p.workspaceOf(ctx, id)
	if err != nil {
		return dashboard.Task{}, err
	}
	t, err := p.n.store.Task(ctx, workspace, id)
	if err != nil {
		return dashboard.Task{}, err
	}
	attempts, err := p.n.store.Attempts(ctx, workspace, id)
	if err != nil {
		return dashboard.Task{}, err
	}
	out := dashboard.Task{ID: t.ID.String(), Workspace: t.Workspace, Conversation: t.Conversation, Kind: string(t.Kind), Status: string(t.Status), Model: t.Model,
		AcceptedAt: t.AcceptedAt, AvailableAt: t.AvailableAt, Deadline: t.Deadline, FinishedAt: t.FinishedAt, LeaseUntil: t.LeaseUntil, Worker: t.Worker,
		Attempts: t.Attempts, MaxAttempts: t.MaxAttempts, Version: t.Version, Interrupted: t.Interruptions, PicoUSD: t.Cost.PicoUSD}
	if f := t.Failure; f != nil {
		out.Class, out.Message = f.Class, f.Message
	}
	for _, a := range attempts {
		out.Ledger = append(out.Ledger, dashboard.Attempt{Number: a.Number, Version: a.Version, Worker: a.Worker, Provider: a.Provider, Model: a.Model,
			StartedAt: a.StartedAt, EndedAt: a.EndedAt, Outcome: string(a.Outcome), Class: a.FailureClass, Input: a.InputTokens, Output: a.OutputTokens, PicoUSD: a.PicoUSD})
	}
	return out, nil
}

// workspaceOf finds a task whatever its workspace: an operator has its id from a record or a log.
func (p pageTasks) workspaceOf(ctx context.Context, id uuid.UUID) (string, error) {
	found, err := p.n.store.Progress(ctx, []uuid.UUID{id})
	if err != nil {
		return "", err
	}
	if i := slices.IndexFunc(found, func(f tasks.Progress) bool { return f.TaskID == id }); i >= 0 {
		return found[i].Workspace, nil
	}
	return "", dashboard.ErrNoTask
}
