package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fencepost/fencepost/e2e/otlp"
	"github.com/fencepost/fencepost/tasks"
)

const (
	sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func open(t *testing.T, c Config) *Telemetry {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Version, c.Instance = "v1", "host-1"
	tracer, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

func TestSpansAreSent(t *testing.T) {
	collector := otlp.New(t)
	tracer := open(t, Config{Endpoint: collector.URL})
	parent := tracer.Start(tasks.SpanStart{Name: "send", Kind: tasks.SpanProducer, Parent: sampled})
	child := tracer.Start(tasks.SpanStart{Name: "process", Kind: tasks.SpanConsumer, Parent: parent.TraceParent(), Link: sampled, At: time.Now().Add(-time.Minute)})
	child.Set("text", "a")
	child.Set("whole", 7)
	child.Set("long", int64(8))
	child.Set("part", 1.5)
	child.Set("truth", true)
	child.Set("list", []string{"a", "b"})
	child.Event("claimed", "version", int64(3))
	child.End("ambiguous")
	parent.End("")
	child.Set("text", "too late")
	child.End("")
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := collector.Spans()
	if len(got) != 2 {
		t.Fatalf("%d spans, want 2", len(got))
	}
	c, p := got[0], got[1]
	want := otlp.Span{
		Trace: sampled[3:35], ID: child.TraceParent()[36:52], Parent: parent.TraceParent()[36:52], Links: []string{sampled[36:52]},
		Name: "process", Kind: "SPAN_KIND_CONSUMER", Failed: true, Events: []string{"claimed"}, Resource: c.Resource,
		Attributes: map[string]string{"text": "a", "whole": "7", "long": "8", "part": "1.5", "truth": "true", "list": "a,b", "error.type": "ambiguous", "claimed/version": "3"},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p.Parent != sampled[36:52] || p.Trace != sampled[3:35] || p.Failed || p.Kind != "SPAN_KIND_PRODUCER" {
		t.Errorf("%+v", p)
	}
	for name, value := range map[string]string{"service.name": "fencepost", "service.version": "v1", "service.instance.id": "host-1"} {
		if c.Resource[name] != value {
			t.Errorf("%s is %q, want %q", name, c.Resource[name], value)
		}
	}
}

// TestTheCallerDecidesWhatIsSampled: what is not sent still carries the trace on.
func TestTheCallerDecidesWhatIsSampled(t *testing.T) {
	collector := otlp.New(t)
	tracer := open(t, Config{Endpoint: collector.URL})
	span := tracer.Start(tasks.SpanStart{Name: "send", Parent: unsampled})
	if got := span.TraceParent(); got[3:35] != unsampled[3:35] || !strings.HasSuffix(got, "-00") {
		t.Errorf("%s does not go on with %s", got, unsampled)
	}
	span.End("")
	for _, parent := range []string{"", "nonsense", "00-00000000000000000000000000000000-b7ad6b7169203331-01", sampled[:54] + "g"} {
		root := tracer.Start(tasks.SpanStart{Name: "root", Parent: parent})
		if _, ok := parse(root.TraceParent()); !ok || !strings.HasSuffix(root.TraceParent(), "-01") {
			t.Errorf("%q leads to %q", parent, root.TraceParent())
		}
		root.End("")
	}
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range collector.Spans() {
		if s.Name != "root" || s.Parent != "" {
			t.Errorf("sent %+v", s)
		}
	}
	if n := len(collector.Spans()); n != 4 {
		t.Errorf("%d spans, want 4", n)
	}
}

func TestTheStandardVariables(t *testing.T) {
	collector := otlp.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_SERVICE_NAME", "chat")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	tracer := open(t, Config{})
	tracer.Start(tasks.SpanStart{Name: "x"}).End("")
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := collector.Spans()
	if len(got) != 1 || got[0].Resource["service.name"] != "chat" || got[0].Resource["deployment.environment.name"] != "test" {
		t.Errorf("%+v", got)
	}
}

func TestConfigured(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		env      map[string]string
		want     bool
	}{
		{"", nil, false},
		{"http://c:4318", nil, true},
		{"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, true},
		{"", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, true},
		{"", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318"}, false},
		{"", map[string]string{"OTEL_SERVICE_NAME": "x"}, false},
		{"http://c:4318", map[string]string{"OTEL_SDK_DISABLED": "TRUE"}, false},
		{"http://c:4318", map[string]string{"OTEL_TRACES_EXPORTER": "none"}, false},
	} {
		if got := Configured(c.endpoint, func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }); got != c.want {
			t.Errorf("%q %v: %t, want %t", c.endpoint, c.env, got, c.want)
		}
	}
	for endpoint, ok := range map[string]bool{"http://c:4318": true, "https://c/otlp/": true, "c:4318": false, "": false, "http://": false, "http://u:p@c": false, "grpc://c:4317": false} {
		if err := CheckEndpoint(endpoint); (err == nil) != ok {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

// TestACollectorThatIsAway: nothing waits for it but the end, as long as it is told to, and the log has one line of it.
func TestACollectorThatIsAway(t *testing.T) {
	var log safeBuffer
	tracer := open(t, Config{Endpoint: "http://127.0.0.1:1", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10_000 { // several times the queue
			span := tracer.Start(tasks.SpanStart{Name: "x"})
			span.Set("a", 1)
			span.End("")
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("spans wait for a collector that is not there")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = tracer.Close(ctx)
	complaints := &complaints{log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 5 {
		complaints.Handle(context.DeadlineExceeded)
	}
	if n := strings.Count(log.String(), "context deadline exceeded"); n > 2 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
