package outbox_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// spans is a tracer that keeps what it is told.
type spans struct {
	mu   sync.Mutex
	list []*span
}

type span struct {
	of         *spans
	start      tasks.SpanStart
	id         string
	attributes map[string]any
	ends       []string
}

func (s *spans) Start(start tasks.SpanStart) tasks.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &span{of: s, start: start, id: fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016x-01", len(s.list)+1), attributes: map[string]any{}}
	s.list = append(s.list, next)
	return next
}

func (s *span) TraceParent() string  { return s.id }
func (s *span) Event(string, ...any) {}
func (s *span) Set(key string, value any) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.attributes[key] = value
}

func (s *span) End(failure string) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.ends = append(s.ends, failure)
}

// TestARecordFollowsFromItsPublishing: from the try that got through, where there were others.
func TestARecordFollowsFromItsPublishing(t *testing.T) {
	w := newWorld(t)
	faults := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.MessageTooLarge, Count: 1})
	defer faults.Remove()
	tracer := &spans{}
	config := w.config(postgres.NewOutbox(w.pool))
	config.Tracer = tracer
	w.submit("c")
	w.start(config)
	w.emptied()
	record := w.reader().distinct(1).records[0]
	header := ""
	for _, h := range record.Headers {
		if h.Key == "traceparent" {
			header = string(h.Value)
		}
	}
	tracer.mu.Lock()
	defer tracer.mu.Unlock()
	if len(tracer.list) != 2 {
		t.Fatalf("%d spans, want one for each try", len(tracer.list))
	}
	for i, want := range []string{"refused", ""} {
		s := tracer.list[i]
		if len(s.ends) != 1 || s.ends[0] != want || s.start.Kind != tasks.SpanProducer || s.start.Name != "send "+topic {
			t.Errorf("try %d: %+v, ended %q, want %q", i+1, s.start, s.ends, want)
		}
	}
	if last := tracer.list[1]; header != last.id || last.attributes["messaging.kafka.offset"] != record.Offset {
		t.Errorf("the record follows from %q; the try that got through is %s, %v", header, last.id, last.attributes)
	}
}
