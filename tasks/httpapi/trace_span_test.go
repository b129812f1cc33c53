package httpapi

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/fencepost/fencepost/tasks"
)

const callersSpan = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// oneSpan is a tracer whose spans all have one id.
type oneSpan struct {
	mu         sync.Mutex
	started    []tasks.SpanStart
	ended      []string
	attributes map[string]any
}

const ourSpan = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"

func (o *oneSpan) Start(s tasks.SpanStart) tasks.Span {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started = append(o.started, s)
	return o
}
func (o *oneSpan) TraceParent() string  { return ourSpan }
func (o *oneSpan) Event(string, ...any) {}
func (o *oneSpan) Set(key string, value any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attributes[key] = value
}

func (o *oneSpan) End(failure string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = append(o.ended, failure)
}

// TestTheTaskFollowsFromTheRequestsSpan: and without a tracer from whatever the caller said.
func TestTheTaskFollowsFromTheRequestsSpan(t *testing.T) {
	span := &oneSpan{attributes: map[string]any{}}
	for want, tracer := range map[string]tasks.Tracer{callersSpan: nil, ourSpan: span} {
		kept := &submissions{}
		a := newAPI(t, func(c *Config) {
			c.Tracer = tracer
			kept.Store = c.Store
			c.Store = kept
		})
		a.do("POST", "/v1/conversations/c/messages", `{"content":"hi"}`, "Idempotency-Key", "k", "Traceparent", callersSpan)
		if len(kept.traces) != 1 || kept.traces[0] != want {
			t.Errorf("kept with the task: %v, want %s", kept.traces, want)
		}
		a.do("GET", "/v1/tasks", "")
	}
	if len(span.started) != 1 || len(span.ended) != 1 || span.ended[0] != "" {
		t.Fatalf("started %+v, ended %q: want one, for what makes work", span.started, span.ended)
	}
	s := span.started[0]
	if s.Kind != tasks.SpanServer || s.Parent != callersSpan || !strings.HasPrefix(s.Name, "POST /v1/conversations/{conversation}") {
		t.Errorf("%+v", s)
	}
	if span.attributes["http.response.status_code"] != 202 || span.attributes["fencepost.replayed"] != false || span.attributes["fencepost.task"] == nil {
		t.Errorf("%v", span.attributes)
	}
}

// submissions keeps the traces of what is submitted.
type submissions struct {
	tasks.Store
	mu     sync.Mutex
	traces []string
}

func (s *submissions) Submit(ctx context.Context, items []tasks.Submission) ([]tasks.Submitted, error) {
	s.mu.Lock()
	for _, item := range items {
		s.traces = append(s.traces, item.TraceParent)
	}
	s.mu.Unlock()
	return s.Store.Submit(ctx, items)
}
