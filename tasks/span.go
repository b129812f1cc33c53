package tasks

import "time"

// Tracer tells a tracing system what is done, and how long it takes. Where one is configured it is nil when tracing is off,
// and whoever traces asks that first: what is off costs nothing. A Tracer must not block, and is safe for concurrent use.
//
// A trace is carried by the W3C traceparent alone, since that is what is kept with a task: over the outbox, the record, the
// days that a task may wait, and into the provider's request. No span holds what was asked or answered.
type Tracer interface {
	Start(SpanStart) Span
}

// SpanStart is how a span begins.
type SpanStart struct {
	Name   string
	Kind   SpanKind
	Parent string    // traceparent; empty or malformed: a new trace
	Link   string    // traceparent of another span that this one follows from; empty: none
	At     time.Time // zero: now
}

// SpanKind is OpenTelemetry's.
type SpanKind uint8

const (
	SpanInternal SpanKind = iota
	SpanServer
	SpanClient
	SpanProducer
	SpanConsumer
)

// Span is something that is being done. It is safe for concurrent use, and once it has ended nothing changes it.
type Span interface {
	// TraceParent is the span's own: the parent of what it causes. It is never empty.
	TraceParent() string
	// Set says something of the span. value is a string, an int, an int64, a float64, a bool or a []string.
	Set(key string, value any)
	// Event is something that happened in between, with pairs of keys and values as those of Set.
	Event(name string, pairs ...any)
	// End ends it. failure is a low-cardinality word for what went wrong, empty for nothing.
	End(failure string)
}
