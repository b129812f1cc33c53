package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// recorder is a tracer that keeps what it is told.
type recorder struct {
	mu    sync.Mutex
	spans []*recorded
}

type recorded struct {
	of         *recorder
	start      tasks.SpanStart
	id         string
	attributes map[string]any
	events     []string
	ends       []string
}

func (r *recorder) Start(s tasks.SpanStart) tasks.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	span := &recorded{of: r, start: s, id: fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016x-01", len(r.spans)+1), attributes: map[string]any{}}
	r.spans = append(r.spans, span)
	return span
}

func (s *recorded) TraceParent() string { return s.id }

func (s *recorded) Set(key string, value any) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.attributes[key] = value
}

func (s *recorded) Event(name string, _ ...any) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.events = append(s.events, name)
}

func (s *recorded) End(failure string) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.ends = append(s.ends, failure)
}

// scripted is a provider, and a recoverer, whose answer is given.
type scripted struct {
	answer llm.Answer
	err    error
	panics bool
	sent   string // traceparent of the last request
}

func (s *scripted) Name() string   { return "model" }
func (s *scripted) Recovers() bool { return true }
func (s *scripted) Asks() bool     { return true }

func (s *scripted) Call(_ context.Context, req llm.Request) (llm.Answer, error) {
	if s.sent = req.TraceParent; s.panics {
		panic("no more")
	}
	return s.answer, s.err
}

func (s *scripted) Recover(ctx context.Context, req llm.Request, _ llm.Lost) (llm.Answer, error) {
	return s.Call(ctx, req)
}

func traced(tracer tasks.Tracer, p *scripted) (*Consumer, *job) {
	c := &Consumer{provider: p, recoverer: p}
	c.cfg.Tracer = tracer
	return c, &job{work: &tasks.Work{Assignment: tasks.Assignment{TaskID: uuid.Nil}}, it: &item{trace: "submit"}, trace: "attempt"}
}

func TestSpanOfACall(t *testing.T) {
	usage := &llm.Usage{InputTokens: 3, OutputTokens: 5}
	for about, c := range map[string]struct {
		provider scripted
		lookUp   bool
		end      string
		usage    bool
	}{
		"answered":                   {scripted{answer: llm.Answer{FinishReason: "stop", Report: llm.Report{Usage: usage}}}, false, "", true},
		"failed":                     {scripted{err: &llm.Failure{Class: llm.RateLimited, Report: llm.Report{Usage: usage}}}, false, string(llm.RateLimited), true},
		"found":                      {scripted{answer: llm.Answer{Report: llm.Report{Usage: usage}}}, true, "", false},
		"nothing known":              {scripted{err: llm.ErrNoTrace}, true, "", false},
		"panicked":                   {scripted{panics: true}, false, "panic", false},
		"panicked while looking":     {scripted{panics: true}, true, "panic", false},
		"failed without saying how":  {scripted{err: errors.New("?")}, false, string(llm.Ambiguous), false},
		"a recoverer that cannot be": {scripted{err: &llm.Failure{Class: llm.NotSent}}, true, string(llm.NotSent), false},
	} {
		t.Run(about, func(t *testing.T) {
			tracer, p := &recorder{}, c.provider
			consumer, j := traced(tracer, &p)
			req := llm.Request{Model: "m", TraceParent: j.trace, Content: "secret"}
			operation := "chat"
			func() {
				defer func() { _ = recover() }()
				if c.lookUp {
					operation = "fetch_response"
					_, _ = consumer.lookUp(t.Context(), j, req, llm.Lost{})
				} else {
					_, _ = consumer.callProvider(t.Context(), j, req)
				}
			}()
			s := tracer.spans[0]
			if s.start.Name != operation+" m" || s.start.Kind != tasks.SpanClient || s.start.Parent != "attempt" || p.sent != s.id {
				t.Errorf("%+v, the request follows from %s", s.start, p.sent)
			}
			if !slices.Equal(s.ends, []string{c.end}) {
				t.Errorf("ended %q, want once with %q", s.ends, c.end)
			}
			if _, ok := s.attributes["gen_ai.usage.output_tokens"]; ok != c.usage {
				t.Errorf("usage told: %t, want %t", ok, c.usage)
			}
			for k, v := range s.attributes {
				if v == "secret" {
					t.Errorf("%s holds the prompt", k)
				}
			}
		})
	}
}

// TestTracingThatIsOffCostsNothing: no allocation beside the provider's own.
func TestTracingThatIsOffCostsNothing(t *testing.T) {
	p := &scripted{}
	c, j := traced(nil, p)
	c.callCtx = t.Context()
	req := llm.Request{Model: "m", TraceParent: j.trace}
	ctx := t.Context()
	settled := tasks.Settled{Verdict: tasks.VerdictAccepted}
	if n := testing.AllocsPerRun(1000, func() {
		_, _ = c.callProvider(ctx, j, req)
		_, _ = c.lookUp(ctx, j, req, llm.Lost{})
		j.traceSettled(tasks.Settlement{}, settled)
		j.traceAbandoned()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if p.sent != j.trace {
		t.Errorf("the request follows from %q", p.sent)
	}
}

func BenchmarkTracingOff(b *testing.B) {
	p := &scripted{}
	c, j := traced(nil, p)
	req := llm.Request{Model: "m"}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.callProvider(b.Context(), j, req)
		j.traceSettled(tasks.Settlement{}, tasks.Settled{})
	}
}
