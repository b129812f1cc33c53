package otlp

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Span is what a test looks at.
type Span struct {
	Trace, ID, Parent string
	Links             []string // ids of the spans that it follows from
	Name              string
	Kind              string // as in the protocol: SPAN_KIND_SERVER, ...
	Failed            bool
	Attributes        map[string]string // of all types, as text
	Resource          map[string]string
	Events            []string
}

// Collector keeps what it was sent.
type Collector struct {
	URL string

	mu    sync.Mutex
	spans []Span
	posts int
}

// New starts a collector.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.take(r); err != nil {
			t.Errorf("otlp: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	c.URL = server.URL
	t.Cleanup(server.Close)
	return c
}

func (c *Collector) take(r *http.Request) error {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var req collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(text, &req); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posts++
	for _, of := range req.ResourceSpans {
		resource := attributes(of.GetResource().GetAttributes())
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				span := Span{
					Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
					Name: s.Name, Kind: s.Kind.String(), Failed: s.GetStatus().GetCode() != 0,
					Attributes: attributes(s.Attributes), Resource: resource,
				}
				for _, l := range s.Links {
					span.Links = append(span.Links, hex.EncodeToString(l.SpanId))
				}
				for _, e := range s.Events {
					span.Events = append(span.Events, e.Name)
					for k, v := range attributes(e.Attributes) {
						span.Attributes[e.Name+"/"+k] = v
					}
				}
				c.spans = append(c.spans, span)
			}
		}
	}
	return nil
}

func attributes(list []*common.KeyValue) map[string]string {
	out := make(map[string]string, len(list))
	for _, kv := range list {
		out[kv.Key] = text(kv.Value)
	}
	return out
}

func text(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *common.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *common.AnyValue_DoubleValue:
		return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
	case *common.AnyValue_ArrayValue:
		out := ""
		for i, item := range v.ArrayValue.Values {
			if i > 0 {
				out += ","
			}
			out += text(item)
		}
		return out
	}
	return ""
}

// Spans are those that have arrived, in their order.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Posts is how many requests have arrived.
func (c *Collector) Posts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.posts
}
