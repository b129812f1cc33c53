package sim

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencepost/fencepost/e2e/history"
	"github.com/fencepost/fencepost/llm"
)

// model is the provider, outside of every process: it decides by the seed, the content and how often it was asked, and
// keeps the ledger that counts.
type model struct {
	seed uint64
	rec  *recorder
	data *database

	mu     sync.Mutex
	asked  map[string]int
	last   map[string]llm.Class // what the last call of a content failed with
	open   map[string]int       // calls by process
	tokens int64
	calm   bool // answers only, soon: the faults are over
}

func newModel(seed uint64, data *database) *model {
	return &model{seed: seed, rec: data.rec, data: data, asked: map[string]int{}, last: map[string]llm.Class{}, open: map[string]int{}}
}

func (m *model) setCalm() {
	m.mu.Lock()
	m.calm = true
	m.mu.Unlock()
}

func (m *model) inFlight(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open[name]
}

// reply is what a call comes to.
type reply struct {
	after  time.Duration // the caller hears nothing before
	class  llm.Class     // "": an answer
	usage  bool          // a failure that reports usage
	retry  time.Duration
	hang   bool // the caller hears nothing at all
	unsent bool
}

func (m *model) draw(content string) (r reply, in int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[content]++
	m.tokens++
	n := m.asked[content]
	if n > 1 && (m.last[content] == llm.RateLimited || m.last[content] == llm.Overloaded) {
		m.rec.count("retry after " + string(m.last[content]))
	}
	h := fnv.New64a()
	h.Write([]byte(content))
	random := rand.New(rand.NewPCG(m.seed+uint64(n), h.Sum64()))
	r.after = 20*time.Millisecond + time.Duration(random.ExpFloat64()*float64(2*time.Second))
	if random.IntN(8) == 0 {
		r.after += time.Duration(random.Int64N(int64(25 * time.Second)))
	}
	what := random.IntN(100)
	if m.calm {
		what, r.after = 99, min(r.after, 2*time.Second)
	}
	switch {
	case what < 8:
		r.class, r.after, r.retry = llm.RateLimited, 10*time.Millisecond, time.Duration(random.IntN(3))*time.Second
		if random.IntN(4) == 0 {
			r.retry = time.Duration(60+random.IntN(60)) * time.Second // longer than a record is parked for
		}
	case what < 12:
		r.class = llm.Overloaded
	case what < 17:
		r.class = llm.Ambiguous
	case what < 20:
		r.class, r.unsent, r.after = llm.NotSent, true, 0
	case what < 22:
		r.class = llm.Permanent
	case what < 24:
		r.class, r.usage = llm.RejectedOutput, true
	case what < 28:
		r.hang = true
	}
	m.last[content] = r.class
	return r, m.tokens
}

// provider is the model as a process calls it.
type provider struct {
	m *model
	p *proc
}

// Name implements llm.Provider.
func (provider) Name() string { return "sim" }

// Call implements llm.Provider.
func (c provider) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	if err := c.p.pass(); err != nil {
		return llm.Answer{}, &llm.Failure{Class: llm.NotSent, Message: "dead", Err: err}
	}
	if ctx.Err() != nil {
		return llm.Answer{}, llm.Interrupted(ctx, false)
	}
	r, in := c.m.draw(req.Content)
	if r.unsent {
		return llm.Answer{}, &llm.Failure{Class: r.class, Message: "no connection"}
	}
	e := history.Event{ID: c.m.rec.ids(1), Proc: c.p.name, Op: history.Call, Type: history.Invoke, Task: c.m.data.taskOf(req.Content)}
	c.m.rec.add(e)
	c.m.opened(c.p.name, 1)
	defer c.m.opened(c.p.name, -1)
	report := llm.Report{WireRequests: 1, Model: "sim"}
	usage := llm.Usage{InputTokens: in, OutputTokens: 7}
	waited := c.wait(ctx, r)
	if err := c.p.pass(); err != nil {
		return llm.Answer{}, &llm.Failure{Class: llm.Ambiguous, Message: "dead", Err: err, Report: report}
	}
	e.Type = history.Fail
	switch {
	case waited != nil:
		c.m.rec.add(e)
		f := llm.Interrupted(ctx, true)
		f.Report = report
		return llm.Answer{}, f
	case r.class == "":
		report.Usage = &usage
		e.Type, e.Tokens = history.OK, &history.Tokens{In: usage.InputTokens, Out: usage.OutputTokens}
		c.m.rec.add(e)
		return llm.Answer{Text: "re: " + req.Content, FinishReason: "stop", Report: report}, nil
	case r.usage:
		report.Usage = &usage
		e.Type, e.Tokens = history.OK, &history.Tokens{In: usage.InputTokens, Out: usage.OutputTokens}
	}
	c.m.rec.add(e)
	c.m.rec.count("provider: " + string(r.class))
	return llm.Answer{}, &llm.Failure{Class: r.class, Message: "simulated", RetryAfter: r.retry, Report: report}
}

// wait lasts as long as the call does. A process that stands still does not see that its time is up before it goes on,
// and may then have the answer in hand as well.
func (c provider) wait(ctx context.Context, r reply) error {
	answered := (<-chan time.Time)(nil)
	if !r.hang {
		t := time.NewTimer(r.after)
		defer t.Stop()
		answered = t.C
	}
	select {
	case <-answered:
		return nil
	case <-c.p.dead:
		return errDead
	case <-ctx.Done():
	}
	stood := c.p.stands()
	if err := c.p.pass(); err != nil {
		return err
	}
	select {
	case <-answered:
		if stood {
			return nil
		}
	default:
	}
	return errCancelled
}

var errCancelled = errors.New("cancelled")

func (m *model) opened(name string, n int) {
	m.mu.Lock()
	m.open[name] += n
	m.mu.Unlock()
}
