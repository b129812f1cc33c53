package page

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fencepost/fencepost/offsets/dashboard"
)

// fake is an installation with something of everything, and more of it at each reading.
type fake struct {
	partitions int

	mu    sync.Mutex
	reads int64
	fail  error
}

func (f *fake) sources() dashboard.Sources {
	return dashboard.Sources{Lag: f, Work: f, Money: f, Outbox: f, Gate: f, Tasks: f}
}

func (f *fake) failing(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func id(n int) string { return fmt.Sprintf("0199f3aa-0000-7000-8000-%012d", n) }

func (f *fake) Lag(context.Context) (dashboard.Lag, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	now := time.Now()
	out := dashboard.Lag{At: now, Group: "fencepost", Topic: "reply-tasks", State: "Stable", Members: 4, Offsets: "postgres", Status: "BLOCKED", Complete: true}
	for n := range f.partitions {
		p := dashboard.Partition{Partition: int32(n), Status: "OK", Committed: 1000, Position: 1000, End: 1000 + f.reads, Ahead: 0, LagSeconds: 0.4, ETASeconds: 2,
			Member: fmt.Sprintf("fencepost-worker at /10.0.0.%d", n%4+1)}
		switch {
		case n == 1:
			p.Status, p.Why, p.End, p.Ahead, p.LagSeconds, p.ETASeconds = "BLOCKED", "the record at 1000 has held back 215 settled ones for 11 min", 1300, 215, 660, -1
			p.Head = &dashboard.Head{Offset: 1000, Task: id(1), AgeSeconds: 660, Attempt: 3, TaskStatus: "running"}
		case n == 2:
			p.Status, p.Why, p.End, p.Member, p.LagSeconds, p.ETASeconds = "STOP", "no member has the partition, and nothing has moved for 3 min", 1042, "", 190, -1
			p.Head = &dashboard.Head{Offset: 1000, Task: id(2), AgeSeconds: 190, Attempt: 0, TaskStatus: "queued"}
		case n%7 == 3:
			p.Status, p.Why, p.End, p.LagSeconds = "WARN", "it moves, and the lag has not fallen for 2 min", 1000+int64(n)*10, float64(n)
			p.Head = &dashboard.Head{Offset: 1000, AgeSeconds: float64(n), Attempt: dashboard.Unknown}
		case n%41 == 40:
			p.Status, p.Why, p.Committed, p.Position, p.End, p.LagSeconds, p.ETASeconds = "UNKNOWN", "its leader does not answer", dashboard.Unknown, dashboard.Unknown, dashboard.Unknown, -1, -1
		}
		p.Lag = dashboard.Unknown
		if p.End >= 0 {
			p.Lag = p.End - p.Committed
			out.TotalLag += p.Lag
		}
		out.MaxSeconds = max(out.MaxSeconds, p.LagSeconds)
		for i := range 360 {
			at := now.Add(-time.Hour + time.Duration(i)*10*time.Second)
			if n%7 == 3 && i > 100 && i < 160 {
				continue // nobody read it then
			}
			p.History = append(p.History, dashboard.Point{At: at, Lag: max(0, p.Lag) * int64((i*(n+3))%97+i) / 457})
		}
		out.Partitions = append(out.Partitions, p)
	}
	return out, f.fail
}

func (f *fake) Work(context.Context) (dashboard.Work, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := dashboard.Work{Unfinished: []dashboard.Count{{Name: "queued", N: 9_120}, {Name: "running", N: 512}}, UnfinishedBound: 50_000, Tasks: 10_000, Attempts: 10_000,
		ByStatus:  []dashboard.Count{{Name: "completed", N: 7210}, {Name: "running", N: 512}, {Name: "queued", N: 2120}, {Name: "failed", N: 151}, {Name: "cancelled", N: 7}},
		ByOutcome: []dashboard.Count{{Name: "accepted", N: 6980}, {Name: "running", N: 512}, {Name: "overloaded", N: 1810}, {Name: "rate_limited", N: 640}, {Name: "not_accepted", N: 58}}}
	for i := range 8 {
		out.Failures = append(out.Failures, dashboard.Failure{Task: id(100 + i), Workspace: "acme", Class: []string{"content_filter", "attempts", "deadline"}[i%3],
			Message: "the provider said: <script>alert(1)</script> no more of this, please", Attempt: i%5 + 1, Age: time.Duration(i*i) * 37 * time.Second})
	}
	return out, f.fail
}

func (f *fake) Money(context.Context) (dashboard.Money, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return dashboard.Money{Day: time.Now(), Complete: true, PicoUSD: 41_230_000_000_000, Attempts: 9_488, UnknownAttempts: 3, UnpricedAttempts: 12, NotAccepted: 120_000_000_000, SavedReplays: 44, Saved: 310_000_000_000,
		InputTokens: 18_220_114, CachedInputTokens: 9_000_000, OutputTokens: 2_401_772,
		ByModel:     []dashboard.Amount{{Name: "gpt-5-mini", PicoUSD: 31_000_000_000_000, Attempts: 9000}, {Name: "claude-haiku-4-5", PicoUSD: 10_230_000_000_000, Attempts: 488}},
		ByWorkspace: []dashboard.Amount{{Name: "acme", PicoUSD: 40_000_000_000_000, Attempts: 9400}, {Name: "tiny", PicoUSD: 1_230_000_000_000, Attempts: 88}},
		Budgets:     []dashboard.Budget{{Workspace: "acme", PerDay: 50_000_000_000_000, Spent: 40_000_000_000_000, Reserved: 8_000_000_000_000}, {Workspace: "tiny", PerDay: 5_000_000_000_000, Spent: 1_230_000_000_000}}}, f.fail
}

func (f *fake) Outbox(context.Context) (dashboard.Outbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return dashboard.Outbox{Pending: 812, Oldest: 95 * time.Second, Reader: "node-7-4711-1a2b3c4d"}, f.fail
}

func (f *fake) Gate() dashboard.Gate {
	return dashboard.Gate{Provider: "openai", Breaker: "open", Reason: "quota", Message: "You exceeded your current quota", Since: time.Now().Add(-time.Minute), Until: time.Now().Add(time.Minute), Opened: 2}
}

func (f *fake) Task(_ context.Context, name string) (dashboard.Task, error) {
	if name != id(1) {
		return dashboard.Task{}, dashboard.ErrNoTask
	}
	tokens, cost := int64(1200), int64(420_000_000)
	now := time.Now()
	return dashboard.Task{ID: name, Workspace: "acme", Conversation: "c-42", Kind: "reply", Status: "running", Model: "gpt-5-mini", AcceptedAt: now.Add(-11 * time.Minute),
		AvailableAt: now.Add(-time.Minute), Deadline: now.Add(49 * time.Minute), LeaseUntil: now.Add(12 * time.Second), Worker: "node-7-4711-1a2b3c4d", Attempts: 3, MaxAttempts: 5, Version: 4,
		Interrupted: 1, Class: "overloaded", Message: "529 Overloaded", Ledger: []dashboard.Attempt{
			{Number: 1, Version: 1, Worker: "node-7", Provider: "openai", Model: "gpt-5-mini", StartedAt: now.Add(-11 * time.Minute), EndedAt: now.Add(-10 * time.Minute), Outcome: "failed", Class: "overloaded", Input: &tokens, PicoUSD: &cost},
			{Number: 2, Version: 3, Worker: "node-8", Provider: "openai", Model: "gpt-5-mini", StartedAt: now.Add(-9 * time.Minute), Outcome: "unknown"},
			{Number: 3, Version: 4, Worker: "node-7", Provider: "openai", Model: "gpt-5-mini", StartedAt: now.Add(-time.Minute), Outcome: "unknown"}}}, f.fail
}
