package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// HeaderFrom is on a record that was put back: TOPIC/PARTITION/OFFSET of its letter.
const HeaderFrom = "fencepost-requeued-from"

// Verdict is why a letter is or is not put back.
type Verdict string

const (
	Requeue    Verdict = "requeue"
	Omitted    Verdict = "omitted"    // its content was too large to be kept
	Unreadable Verdict = "unreadable" // the worker would put it here again
	Missing    Verdict = "missing"    // the store has no such task; the same
	Finished   Verdict = "finished"   // there is nothing left to do
)

// Judge says what is to be done with a letter. unreadable takes also what this version of the program cannot read.
func Judge(l Letter, unreadable bool) Verdict {
	switch {
	case l.Omitted != "":
		return Omitted
	case !l.Readable() && !unreadable:
		return Unreadable
	case l.TaskStatus == "missing":
		return Missing
	case l.TaskStatus == "completed", l.TaskStatus == "failed", l.TaskStatus == "cancelled":
		return Finished
	}
	return Requeue
}

// Requeue puts letters back into topic, with their own keys and values, one after the other: the brokers have acknowledged
// so many when it returns. It stops at the first that they do not, within timeout for each.
func (t Topic) Requeue(ctx context.Context, topic string, letters []Letter, timeout time.Duration) (done int, err error) {
	client, err := kgo.NewClient(append(t.Options[:len(t.Options):len(t.Options)],
		kgo.DisableIdempotentWrite(), // such a record outlives its context, and one that is written twice does no harm
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(timeout),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))...) // a key's partition is the dispatcher's
	if err != nil {
		return 0, err
	}
	defer client.Close()
	for _, l := range letters {
		record := &kgo.Record{Topic: topic, Key: l.key, Value: l.value, Headers: []kgo.RecordHeader{
			{Key: HeaderFrom, Value: fmt.Appendf(nil, "%s/%d/%d", t.Name, l.ID.Partition, l.ID.Offset)},
		}}
		one, cancel := context.WithTimeout(ctx, timeout)
		err := client.ProduceSync(one, record).FirstErr()
		cancel()
		if err != nil {
			return done, fmt.Errorf("letter %s into topic %s: %w", l.ID, topic, err)
		}
		done++
	}
	return done, nil
}
