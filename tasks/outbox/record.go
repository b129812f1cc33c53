package outbox

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/tasks"
)

// Headers of a record. The second is the acceptance of the submission, in RFC 3339.
const (
	headerTrace    = "traceparent"
	headerAccepted = "fencepost-accepted-at"
)

// pointer is a record's value: where the task is, never what is in it.
type pointer struct {
	Version   int       `json:"v"`
	Task      uuid.UUID `json:"task"`
	Workspace string    `json:"workspace"`
}

func record(h tasks.Handoff, key string) *kgo.Record {
	// Cannot fail: a number, a UUID and a string, of which any is JSON.
	value, _ := json.Marshal(pointer{Version: 1, Task: h.TaskID, Workspace: h.Workspace})
	r := &kgo.Record{Key: []byte(key), Value: value, Headers: make([]kgo.RecordHeader, 0, 2)}
	if h.TraceParent != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerTrace, Value: []byte(h.TraceParent)})
	}
	r.Headers = append(r.Headers, kgo.RecordHeader{
		Key: headerAccepted, Value: h.AcceptedAt.UTC().AppendFormat(nil, time.RFC3339Nano),
	})
	return r
}

// producing is what this package needs of the client, whatever else it is configured with.
func (c Config) producing() []kgo.Opt {
	return append(c.Kafka[:len(c.Kafka):len(c.Kafka)],
		kgo.DefaultProduceTopic(c.Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// The partition of a key is what any Kafka client makes of it, so that other producers agree with us.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		// A lone message is not held back; under load, batches fill while requests are in flight.
		kgo.ProducerLinger(0),
		// A record that cannot be delivered comes back to us, and its row is still there.
		kgo.RecordDeliveryTimeout(30*time.Second),
		kgo.UnknownTopicRetries(4),
		// Twice what the loop ever has in flight: Produce would block the loop when this is reached.
		kgo.MaxBufferedRecords(2*c.window()),
		// How soon a new leader or a created topic is seen.
		kgo.MetadataMinAge(250*time.Millisecond),
	)
}

// refused reports whether err speaks of the record or its batch, not of the way to the broker.
func refused(err error) bool {
	for _, of := range []error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.CorruptMessage,
	} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// topicGone reports whether err says that the topic is not there, or is another one of the same name.
func topicGone(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}
