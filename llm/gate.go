package llm

import (
	"container/list"
	"math/rand/v2"
	"sync"
	"time"
)

// GateConfig says what one provider, and each workspace at it, may be asked for by this process.
type GateConfig struct {
	Provider, Workspace Limit
	MaxWait             time.Duration    // the longest wait that is handed out as a place in the queue; 1 min when 0
	Random              func() float64   // jitter, in [0, 1); nil: math/rand
	Clock               func() time.Time // nil: time.Now
}

// Gate admits calls to one provider: within the limits, not while the provider wants a pause, and not while its calls are
// known to fail. Every answer of Admit that is ok is to be followed by one Done or Withdraw. It is safe for concurrent
// use, does no I/O and holds its lock for a constant time.
type Gate struct {
	cfg GateConfig

	mu         sync.Mutex
	breaker    breaker
	calls      int64 // admitted and not ended
	provider   limits
	workspaces map[string]*list.Element // of *workspace
	recent     list.List                // the same, the last used first
	paused     time.Time                // no call before it
	pauses     int                      // in a row, by our own backoff
}

// maxWorkspaces bounds the workspaces whose limits are remembered. Beyond it the one that was longest unused is
// forgotten, and begins anew.
const maxWorkspaces = 10_000

// workspace is what is remembered of one.
type workspace struct {
	name string
	limits
}

// NewGate returns a gate that has seen no call.
func NewGate(cfg GateConfig) *Gate {
	if cfg.MaxWait <= 0 {
		cfg.MaxWait = time.Minute
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	g := &Gate{cfg: cfg, breaker: breaker{state: breakerClosed, random: cfg.Random}, workspaces: map[string]*list.Element{}}
	g.provider.init(cfg.Provider, firstGuess)
	return g
}

// Admit asks whether a call for the workspace may begin. ok and no wait: now. ok and a wait: it has its place, and may
// begin after the wait without asking again. Not ok: ask again after the wait, which is never 0.
func (g *Gate) Admit(workspace string) (wait time.Duration, ok bool) {
	now := g.cfg.Clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := g.blocked(now); d > 0 {
		return g.spread(d), false
	}
	space := g.limitsOf(workspace, now)
	wait = g.provider.wait(now)
	if space != nil {
		wait = max(wait, space.wait(now))
	}
	if wait > g.cfg.MaxWait {
		return g.spread(max(wait-g.cfg.MaxWait, time.Second)), false
	}
	g.provider.begin(now)
	if space != nil {
		space.begin(now)
	}
	g.calls++
	g.breaker.begin(workspace, now.Add(wait))
	return wait, true
}

// Withdraw gives back an admission whose call was not begun.
func (g *Gate) Withdraw(workspace string) {
	now := g.cfg.Clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = max(g.calls-1, 0)
	g.undo(workspace, now)
	g.breaker.withdrawn(workspace)
}

// Done says what an admitted call came to; f is nil for an answer. tokens is its input and output as reported, 0 when
// nothing was.
func (g *Gate) Done(workspace string, tokens int64, f *Failure) {
	now := g.cfg.Clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = max(g.calls-1, 0)
	switch {
	case f != nil && f.Class == NotSent:
		g.undo(workspace, now)
	case tokens > 0:
		g.settle(workspace, now, tokens)
	case f != nil && !f.Class.MayBeCharged():
		g.settle(workspace, now, 0)
	default:
		g.settle(workspace, now, -1)
	}
	g.pace(now, f)
	g.breaker.end(now, workspace, f, g.calls)
}

// Blocked is how long no call at all may begin: the breaker is open, its probe is under way, or the provider asked for a
// pause. 0: calls may begin. Whoever has a place in the queue may ask before it begins, and Withdraw.
func (g *Gate) Blocked() time.Duration {
	now := g.cfg.Clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.blocked(now)
}

func (g *Gate) blocked(now time.Time) time.Duration {
	return max(g.breaker.blocked(now), g.paused.Sub(now), 0)
}

// pace makes every call of the process wait when one was told to.
func (g *Gate) pace(now time.Time, f *Failure) {
	switch {
	case f == nil || f.Class == RejectedOutput:
		g.pauses = 0
		return
	case f.Class == RateLimited, f.Class == Overloaded && f.RetryAfter > 0:
	default:
		return
	}
	d := f.RetryAfter
	if d <= 0 {
		if now.Before(g.paused) {
			return // the call had begun before the pause, which is long enough
		}
		d = g.spread(min(time.Second<<min(g.pauses, 6), 48*time.Second))
		g.pauses++
	}
	if until := now.Add(d); until.After(g.paused) {
		g.paused = until
	}
}

// spread makes d up to a quarter longer, so that those who wait do not come back together.
func (g *Gate) spread(d time.Duration) time.Duration {
	return d + time.Duration(g.cfg.Random()*float64(d)/4)
}

// limitsOf returns the workspace's limits, nil when workspaces have none.
func (g *Gate) limitsOf(name string, now time.Time) *workspace {
	if g.cfg.Workspace == (Limit{}) {
		return nil
	}
	if e, ok := g.workspaces[name]; ok {
		g.recent.MoveToFront(e)
		return e.Value.(*workspace)
	}
	for range 2 { // more than one comes, so that the idle ones go
		last := g.recent.Back()
		if last == nil || len(g.workspaces) < maxWorkspaces && !last.Value.(*workspace).untouched(now) {
			break
		}
		g.recent.Remove(last)
		delete(g.workspaces, last.Value.(*workspace).name)
	}
	w := &workspace{name: name}
	w.init(g.cfg.Workspace, g.provider.average)
	g.workspaces[name] = g.recent.PushFront(w)
	return w
}

func (g *Gate) undo(name string, now time.Time) {
	g.provider.undo(now)
	if e, ok := g.workspaces[name]; ok {
		e.Value.(*workspace).undo(now)
	}
}

func (g *Gate) settle(name string, now time.Time, tokens int64) {
	g.provider.settle(now, tokens)
	if e, ok := g.workspaces[name]; ok {
		e.Value.(*workspace).settle(now, tokens)
	}
}

// GateState is what people are shown of a gate.
type GateState struct {
	Breaker     string    // "closed", "open" or "half_open"
	Reason      string    // why it is not closed: "quota", "config", "unreachable" or "failing"
	Message     string    // of the failure that opened it, safe to show
	Since       time.Time // it is not closed since
	Until       time.Time // no call before it, while it is open
	PausedUntil time.Time // the provider's pause; zero when there is none
	Opened      int64     // how often it left closed
}

// State returns the present state.
func (g *Gate) State() GateState {
	now := g.cfg.Clock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.breaker.blocked(now)
	s := GateState{Breaker: g.breaker.state, Opened: g.breaker.times}
	if s.Breaker != breakerClosed {
		s.Reason, s.Message, s.Since, s.Until = verdicts[g.breaker.kind].word, g.breaker.message, g.breaker.since, g.breaker.until
	}
	if now.Before(g.paused) {
		s.PausedUntil = g.paused
	}
	return s
}
