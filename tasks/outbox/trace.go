package outbox

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/tasks"
)

// produceTraced publishes a row in a span of its own, from which the record's processing follows. A row that is tried again
// is another span of the same trace.
func (l *loop) produceTraced(r *row) {
	span := l.config.Tracer.Start(tasks.SpanStart{Name: "send " + l.config.Topic, Kind: tasks.SpanProducer, Parent: r.TraceParent})
	span.Set("messaging.system", "kafka")
	span.Set("messaging.operation.name", "send")
	span.Set("messaging.operation.type", "send")
	span.Set("messaging.destination.name", l.config.Topic)
	span.Set("fencepost.task", r.TaskID.String())
	h := r.Handoff
	h.TraceParent = span.TraceParent()
	l.client.Produce(l.flight, record(h, r.lane.key), func(sent *kgo.Record, err error) {
		failure := ""
		switch {
		case err == nil:
			span.Set("messaging.destination.partition.id", int(sent.Partition))
			span.Set("messaging.kafka.offset", sent.Offset)
		case refused(err):
			failure = "refused"
		default:
			failure = "not_acknowledged"
		}
		span.End(failure)
		l.acks.add(r, err)
	})
}
