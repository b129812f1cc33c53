package llm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// clocked is a gate whose clock stands until it is moved.
type clocked struct {
	*Gate
	now time.Time
}

func newClocked(cfg GateConfig) *clocked {
	c := &clocked{now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
	cfg.Clock = func() time.Time { return c.now }
	if cfg.Random == nil {
		cfg.Random = func() float64 { return 0 }
	}
	c.Gate = NewGate(cfg)
	return c
}

// begins counts how many of n calls of the workspace are admitted to begin now.
func (c *clocked) begins(workspace string, n int) (begun int) {
	for range n {
		wait, ok := c.Admit(workspace)
		switch {
		case ok && wait == 0:
			begun++
		case ok:
			c.Withdraw(workspace)
		}
	}
	return begun
}

func TestGateOfNoLimitsAdmitsEverything(t *testing.T) {
	c := newClocked(GateConfig{})
	if n := c.begins("w", 100_000); n != 100_000 || c.Blocked() != 0 || c.State() != (GateState{Breaker: "closed"}) {
		t.Errorf("%d, %v, %+v", n, c.Blocked(), c.State())
	}
}

// Whoever asks, and however often: no minute sees more calls begin than a tenth above its limit, nor, while there are
// always some waiting, fewer than it.
func TestGateLimitsRequests(t *testing.T) {
	for _, perMinute := range []int{1, 7, 60, 500} {
		for name, cfg := range map[string]GateConfig{
			"provider": {Provider: Limit{RequestsPerMinute: perMinute}}, "workspace": {Workspace: Limit{RequestsPerMinute: perMinute}},
		} {
			c := newClocked(cfg)
			start := c.now
			var begins []time.Time
			for c.now.Sub(start) < 10*time.Minute {
				wait, ok := c.Admit("w")
				if ok {
					begins = append(begins, c.now.Add(wait))
					continue
				}
				if wait <= 0 || wait > time.Minute {
					t.Fatalf("ask again after %v", wait)
				}
				c.now = c.now.Add(wait)
			}
			most := max(1, perMinute/10) + perMinute
			for i := range begins {
				if i >= most && begins[i].Sub(begins[i-most]) < time.Minute-time.Millisecond {
					t.Fatalf("%s, %d a minute: %d begin within %v", name, perMinute, most+1, begins[i].Sub(begins[i-most]))
				}
			}
			if last := begins[len(begins)-1].Sub(start); last > 12*time.Minute || len(begins) < perMinute*10 {
				t.Errorf("%s, %d a minute: %d calls in %v", name, perMinute, len(begins), last)
			}
		}
	}
}

func TestGateQueueEnds(t *testing.T) {
	c := newClocked(GateConfig{Provider: Limit{RequestsPerMinute: 60}, MaxWait: 10 * time.Second})
	var last time.Duration
	for range 16 { // 6 at once, 10 in the queue
		wait, ok := c.Admit("w")
		if !ok || wait < last || wait > 10*time.Second {
			t.Fatalf("%v %v after %v", wait, ok, last)
		}
		last = wait
	}
	for range 100 {
		if wait, ok := c.Admit("w"); ok || wait != time.Second {
			t.Fatalf("%v %v", wait, ok)
		}
	}
	c.now = c.now.Add(time.Second)
	if wait, ok := c.Admit("w"); !ok || wait != 10*time.Second {
		t.Errorf("what was refused is in the queue all the same: %v %v", wait, ok)
	}
}

func TestGateLimitsEachWorkspaceAlone(t *testing.T) {
	c := newClocked(GateConfig{Provider: Limit{RequestsPerMinute: 150}, Workspace: Limit{RequestsPerMinute: 60}})
	for i, want := range []int{6, 6, 3} {
		if got := c.begins(fmt.Sprint("w", i), 20); got != want {
			t.Errorf("workspace %d: %d begin, want %d", i, got, want)
		}
	}
}

// Nothing is taken of one limit when the other refuses.
func TestGateTakesFromAllLimitsOrNone(t *testing.T) {
	c := newClocked(GateConfig{Provider: Limit{RequestsPerMinute: 100}, Workspace: Limit{RequestsPerMinute: 10}, MaxWait: time.Second})
	c.begins("greedy", 1000)
	if got := c.begins("other", 1) + c.begins("third", 1) + c.begins("fourth", 1); got != 3 {
		t.Errorf("%d of 3 others begin", got)
	}
}

func TestGateWithdraw(t *testing.T) {
	c := newClocked(GateConfig{Provider: Limit{60, 60_000}, Workspace: Limit{60, 60_000}})
	for range 1000 {
		if wait, ok := c.Admit("w"); !ok || wait != 0 {
			t.Fatalf("%v %v", wait, ok)
		}
		c.Withdraw("w")
	}
	for range 1000 {
		if wait, ok := c.Admit("w"); !ok || wait != 0 {
			t.Fatalf("%v %v", wait, ok)
		}
		c.Done("w", 0, &Failure{Class: NotSent, Err: context.Canceled})
	}
	c.Withdraw("w") // of nothing
	if got := c.begins("w", 100); got != 6 {
		t.Errorf("%d begin, want 6", got)
	}
}

func TestGateLimitsTokens(t *testing.T) {
	refused := &Failure{Class: RateLimited, RetryAfter: time.Nanosecond}
	for _, c := range []struct {
		name   string
		tokens int64
		f      *Failure
		free   int64 // of the 6,000 tokens at once, after the call
	}{
		{"as guessed", 1000, nil, 5000},
		{"fewer", 10, nil, 5990},
		{"more", 4000, nil, 2000},
		{"more than all", 30_000, nil, -24_000},
		{"a failure that was paid for", 4000, &Failure{Class: RejectedOutput}, 2000},
		{"unknown", 0, nil, 5000},
		{"unknown after a failure", 0, &Failure{Class: Ambiguous}, 5000},
		{"cancelled", 0, &Failure{Class: Cancelled}, 5000},
		{"refused", 0, refused, 6000},
		{"bad request", 0, &Failure{Class: Permanent, Status: 400}, 6000},
		{"not sent", 0, &Failure{Class: NotSent}, 6000},
	} {
		g := newClocked(GateConfig{Provider: Limit{TokensPerMinute: 60_000}, Workspace: Limit{TokensPerMinute: 60_000}})
		if wait, ok := g.Admit("w"); !ok || wait != 0 {
			t.Fatalf("%v %v", wait, ok)
		}
		g.Done("w", c.tokens, c.f)
		for name, l := range map[string]limits{"provider": g.provider, "workspace": g.limitsOf("w", g.now).limits} {
			if got := int64(l.tokens.TokensAt(g.now)); got != c.free || l.calls != 0 || l.charged != 0 {
				t.Errorf("%s, %s: %d tokens left, want %d; %+v", c.name, name, got, c.free, l)
			}
		}
		if c.free < 0 {
			if wait, ok := g.Admit("w"); !ok || wait.Round(time.Millisecond) != 26812*time.Millisecond {
				t.Errorf("%s: the next one waits %v", c.name, wait)
			}
		}
	}
}

// The guess follows what calls use: a limit of tokens then limits calls, before any of them has ended.
func TestGateGuessesTokens(t *testing.T) {
	c := newClocked(GateConfig{Provider: Limit{TokensPerMinute: 600_000}})
	for range 100 {
		if _, ok := c.Admit("w"); !ok {
			t.Fatal("refused")
		}
		c.Done("w", 6000, nil)
		c.now = c.now.Add(time.Minute)
	}
	if got := c.begins("w", 100); got != 10 {
		t.Errorf("%d calls of 6000 tokens begin at once, of 60000 tokens", got)
	}
}

// One call cannot lock the limit for longer than ten minutes, whatever a server reports of it.
func TestGateBoundsWhatOneCallOverdraws(t *testing.T) {
	for _, perMinute := range []int{1, 1000, 1 << 40} {
		c := newClocked(GateConfig{Provider: Limit{TokensPerMinute: perMinute}})
		_, _ = c.Admit("w")
		c.Done("w", 1<<62, nil)
		c.now = c.now.Add(time.Duration(maxOverdraft+100) * time.Minute)
		if wait, ok := c.Admit("w"); !ok || wait > time.Minute {
			t.Errorf("%d a minute: %v %v", perMinute, wait, ok)
		}
	}
}

func TestGateForgetsIdleWorkspaces(t *testing.T) {
	c := newClocked(GateConfig{Workspace: Limit{60, 60_000}})
	for i := range 3 * maxWorkspaces {
		name := fmt.Sprint(i)
		c.begins(name, 1)
		if len(c.workspaces) > maxWorkspaces || len(c.workspaces) != c.recent.Len() {
			t.Fatalf("%d workspaces, %d in the list", len(c.workspaces), c.recent.Len())
		}
		if i%2 == 0 {
			c.Done(name, 100, nil)
		}
	}
	c.Done("0", 100, nil) // long forgotten
	c = newClocked(GateConfig{Workspace: Limit{60, 60_000}})
	for i := range 1000 {
		c.begins(fmt.Sprint(i), 1)
		c.Done(fmt.Sprint(i), 100, nil)
	}
	c.begins("busy", 6)
	c.now = c.now.Add(time.Minute)
	for i := range 600 {
		c.begins(fmt.Sprint("new", i), 1)
		c.begins("busy", 1)
		c.Withdraw("busy")
	}
	if len(c.workspaces) > 700 {
		t.Errorf("%d workspaces are remembered, of 601 that are used", len(c.workspaces))
	}
	if c.limitsOf("busy", c.now).calls == 0 {
		t.Error("a workspace with calls under way was forgotten")
	}
}

func TestGatePauses(t *testing.T) {
	c := newClocked(GateConfig{})
	told := func(d time.Duration) *Failure { return &Failure{Class: RateLimited, RetryAfter: d} }
	c.begins("a", 100)
	c.Done("a", 0, told(7*time.Second))
	if wait, ok := c.Admit("another"); ok || wait != 7*time.Second || c.Blocked() != wait || !c.State().PausedUntil.Equal(c.now.Add(wait)) {
		t.Fatalf("%v %v, blocked for %v", wait, ok, c.Blocked())
	}
	c.Done("a", 0, told(3*time.Second)) // a shorter one does not shorten it
	c.Done("a", 0, told(0))             // nor does one without a word lengthen it
	c.Done("a", 5, nil)                 // nor an answer end it
	if c.Blocked() != 7*time.Second {
		t.Fatalf("blocked for %v", c.Blocked())
	}
	c.now = c.now.Add(7 * time.Second)
	if c.Blocked() != 0 || c.State() != (GateState{Breaker: "closed"}) || c.begins("a", 1) != 1 {
		t.Fatalf("still %+v", c.State())
	}
	var got []time.Duration
	for range 8 { // nothing is said: longer each time
		c.Done("a", 0, told(0))
		c.Done("a", 0, told(0)) // a second of the same moment
		got = append(got, c.Blocked())
		c.now = c.now.Add(c.Blocked())
	}
	const s = time.Second
	if fmt.Sprint(got) != fmt.Sprint([]time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 48 * s, 48 * s}) {
		t.Errorf("%v", got)
	}
	c.Done("a", 5, nil)
	c.Done("a", 0, told(0))
	if c.Blocked() != s {
		t.Errorf("%v after a success", c.Blocked())
	}
	c.now = c.now.Add(s)
	c.Done("a", 0, &Failure{Class: Overloaded})
	if c.Blocked() != 0 {
		t.Error("an overloaded provider that did not ask for it paused all")
	}
	c.Done("a", 0, &Failure{Class: Overloaded, RetryAfter: 4 * s})
	if c.Blocked() != 4*s {
		t.Error("an overloaded provider that asked for it did not pause all")
	}
}

// Jitter lengthens waits, and shortens cool-downs; nothing goes beyond the caps.
func TestGateJitter(t *testing.T) {
	c := newClocked(GateConfig{Random: func() float64 { return 0.999999 }})
	for range 10 {
		c.Done("a", 0, &Failure{Class: RateLimited})
		if d := c.Blocked(); d > time.Minute {
			t.Errorf("pause of %v", d)
		}
		if wait, _ := c.Admit("a"); wait < c.Blocked() {
			t.Errorf("ask again in %v, blocked for %v", wait, c.Blocked())
		}
		c.now = c.now.Add(c.Blocked())
	}
	c.Done("a", 0, &Failure{Class: Quota})
	if d := c.Blocked(); d < 3700*time.Millisecond || d > 3800*time.Millisecond {
		t.Errorf("cool-down of %v", d)
	}
}

func TestGateIsSafeForConcurrentUse(t *testing.T) {
	g := NewGate(GateConfig{Provider: Limit{60_000, 6_000_000}, Workspace: Limit{6000, 600_000}})
	g.Done("w", 0, &Failure{Class: Quota, Message: "no money"})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 2000 {
				name := fmt.Sprint("w", (i+n)%5)
				if _, ok := g.Admit(name); ok {
					g.Done(name, int64(n), nil)
				}
				_, _ = g.Blocked(), g.State()
			}
		})
	}
	wg.Wait()
}

// However the calls end, lost ones included: once the provider works, calls begin again, and the breaker closes.
func TestGateIsNeverLockedForEver(t *testing.T) {
	ends := []*Failure{nil, {Class: NotSent, Err: &net.OpError{}}, {Class: NotSent, Err: context.Canceled}, {Class: RateLimited}, {Class: RateLimited, RetryAfter: MaxRetryAfter},
		{Class: Overloaded}, {Class: Ambiguous, Err: errors.New("reset")}, {Class: Permanent, Status: 400}, {Class: Permanent}, {Class: Permanent, Config: true, Status: 401},
		{Class: Permanent, Config: true, Status: 404}, {Class: Quota}, {Class: Cancelled}, {Class: RejectedOutput}}
	rapid.Check(t, func(t *rapid.T) {
		c := newClocked(GateConfig{Provider: Limit{600, 600_000}, Workspace: Limit{600, 600_000}, Random: func() float64 { return 0.5 }})
		under := map[string]int{}
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			w := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "workspace")
			switch rapid.SampledFrom([]string{"admit", "admit", "done", "done", "done", "withdraw", "lose", "wait"}).Draw(t, "step") {
			case "admit":
				wait, ok := c.Admit(w)
				if !ok && wait <= 0 {
					t.Fatalf("refused, and told to ask again at once")
				}
				if ok {
					under[w]++
				}
				if ok && c.State().Breaker == "open" {
					t.Fatalf("admitted by an open breaker")
				}
			case "done":
				if under[w] > 0 {
					under[w]--
					c.Done(w, rapid.Int64Range(0, 20_000).Draw(t, "tokens"), rapid.SampledFrom(ends).Draw(t, "end"))
				}
			case "withdraw":
				if under[w] > 0 {
					under[w]--
					c.Withdraw(w)
				}
			case "lose":
				under[w] = max(under[w]-1, 0)
			case "wait":
				c.now = c.now.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "wait")))
			}
			if s := c.State(); s.Breaker != "closed" && (s.Reason == "" || s.Since.IsZero() || s.Opened == 0) {
				t.Fatalf("%+v", s)
			}
		}
		end := c.now.Add(time.Hour)
		for c.now.Before(end) && c.State().Breaker != "closed" {
			wait, ok := c.Admit("a")
			c.now = c.now.Add(wait)
			if ok {
				c.Done("a", 100, nil)
			}
		}
		if s := c.State(); s.Breaker != "closed" {
			t.Fatalf("after an hour of answers: %+v", s)
		}
	})
}

// Of many who ask a half-open gate at once, one gets through.
func TestGateOneProbe(t *testing.T) {
	g := NewGate(GateConfig{})
	for range 20 {
		g.Done("w", 0, &Failure{Class: Ambiguous})
	}
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for {
				wait, ok := g.Admit(fmt.Sprint("w", i))
				if ok {
					admitted.Add(1)
				}
				if ok || admitted.Load() > 0 {
					return
				}
				time.Sleep(min(wait, 50*time.Millisecond))
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 1 || g.Blocked() == 0 {
		t.Errorf("%d probes", admitted.Load())
	}
}

func BenchmarkGate(b *testing.B) {
	for name, cfg := range map[string]GateConfig{
		"no-limits": {}, "limits": {Provider: Limit{1 << 40, 1 << 50}, Workspace: Limit{1 << 40, 1 << 50}},
	} {
		b.Run(name, func(b *testing.B) {
			g := NewGate(cfg)
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := g.Admit("workspace"); ok {
					g.Done("workspace", 1000, nil)
				}
			}
		})
	}
}

// The way of a call that no limit concerns makes no garbage: it is gone with the consumer's lock held.
func TestGateWithoutLimitsAllocatesNothing(t *testing.T) {
	g := NewGate(GateConfig{})
	if n := testing.AllocsPerRun(100, func() { _, _ = g.Admit("w"); g.Done("w", 10, nil); _ = g.Blocked() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
