package telemetry

import (
	"context"
	"encoding/hex"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencepost/fencepost/tasks"
)

var _ tasks.Tracer = (*Telemetry)(nil)

var kinds = map[tasks.SpanKind]trace.SpanKind{
	tasks.SpanInternal: trace.SpanKindInternal, tasks.SpanServer: trace.SpanKindServer, tasks.SpanClient: trace.SpanKindClient,
	tasks.SpanProducer: trace.SpanKindProducer, tasks.SpanConsumer: trace.SpanKindConsumer,
}

// Start implements tasks.Tracer. Whether a span is sent is its parent's decision, where there is one.
func (t *Telemetry) Start(s tasks.SpanStart) tasks.Span {
	ctx := context.Background()
	if parent, ok := parse(s.Parent); ok {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	opts := []trace.SpanStartOption{trace.WithSpanKind(kinds[s.Kind])}
	if link, ok := parse(s.Link); ok {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: link}))
	}
	if !s.At.IsZero() {
		opts = append(opts, trace.WithTimestamp(s.At))
	}
	_, started := t.tracer.Start(ctx, s.Name, opts...)
	return span{started}
}

type span struct{ s trace.Span }

// TraceParent implements tasks.Span.
func (s span) TraceParent() string {
	c := s.s.SpanContext()
	flags := "00"
	if c.IsSampled() {
		flags = "01"
	}
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + flags
}

// Set implements tasks.Span.
func (s span) Set(key string, value any) { s.s.SetAttributes(attributeOf(key, value)) }

// Event implements tasks.Span.
func (s span) Event(name string, pairs ...any) {
	attributes := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		attributes = append(attributes, attributeOf(fmt.Sprint(pairs[i]), pairs[i+1]))
	}
	s.s.AddEvent(name, trace.WithAttributes(attributes...))
}

// End implements tasks.Span.
func (s span) End(failure string) {
	if failure != "" {
		s.s.SetAttributes(attribute.String("error.type", failure))
		s.s.SetStatus(codes.Error, failure)
	}
	s.s.End()
}

func attributeOf(key string, value any) attribute.KeyValue {
	switch v := value.(type) {
	case string:
		return attribute.String(key, v)
	case int:
		return attribute.Int(key, v)
	case int64:
		return attribute.Int64(key, v)
	case float64:
		return attribute.Float64(key, v)
	case bool:
		return attribute.Bool(key, v)
	case []string:
		return attribute.StringSlice(key, v)
	}
	return attribute.String(key, fmt.Sprint(value))
}

// parse reads a W3C traceparent. Later versions may say more behind the flags, which is not for us.
func parse(s string) (trace.SpanContext, bool) {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' || s[:2] == "ff" {
		return trace.SpanContext{}, false
	}
	var config trace.SpanContextConfig
	var err, serr error
	config.TraceID, err = trace.TraceIDFromHex(s[3:35])
	config.SpanID, serr = trace.SpanIDFromHex(s[36:52])
	flags, ferr := hex.DecodeString(s[53:length])
	if err != nil || serr != nil || ferr != nil {
		return trace.SpanContext{}, false
	}
	config.TraceFlags, config.Remote = trace.TraceFlags(flags[0])&trace.FlagsSampled, true
	return trace.NewSpanContext(config), true
}
