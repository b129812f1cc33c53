package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// deadLetter writes the original of a started record to the dead-letter topic and settles the record once the broker
// has acknowledged it; before, a crash would lose it. It is tried for as long as the partition is ours. The goroutine
// is one of c.calls.
func (c *Consumer) deadLetter(it *item, reason string) {
	c.calls.Add(1)
	go func() {
		defer c.calls.Done()
		pause := backoff{base: 100 * time.Millisecond, max: 10 * time.Second}
		for tooLarge := 0; ; {
			record := c.deadLetterRecord(it, reason)
			if tooLarge > 1 { // the first refusal may have been of a batch with others
				omit(record)
			}
			ctx, cancel := context.WithTimeout(c.callCtx, storeTimeout)
			err := c.producer.ProduceSync(ctx, record).FirstErr()
			cancel()
			if err == nil {
				c.log.Warn("record dead-lettered", "reason", reason, "topic", it.asg.topic, "partition", it.asg.partition, "offset", it.offset, "task", it.ref.TaskID)
				c.endApart("dead_lettered", it)
				return
			}
			if errors.Is(err, kerr.MessageTooLarge) {
				tooLarge++
			}
			c.log.Error("dead letter not acknowledged, trying again; its partition's position waits for it",
				"topic", c.cfg.Topic+deadLetterSuffix, "partition", it.asg.partition, "offset", it.offset, "error", err)
			sleep(c.callCtx, pause.next())
			c.mu.Lock()
			gone := it.asg.dead || it.asg.draining || c.callCtx.Err() != nil
			if gone && it.state == itemStarted {
				it.state = itemEnded // whoever has the partition next meets the record again
				it.asg.stopped()
			}
			c.mu.Unlock()
			if gone {
				return
			}
		}
	}()
}

// omit takes out what no dead letter can hold: one that is never accepted would hold its partition for ever. The
// original is still where the other headers say.
func omit(r *kgo.Record) {
	r.Headers = append(r.Headers, kgo.RecordHeader{
		Key: "fencepost-dlq-omitted", Value: fmt.Appendf(nil, "a key of %d and a value of %d bytes", len(r.Key), len(r.Value)),
	})
	r.Key, r.Value = nil, nil
}

const deadLetterSuffix = ".dlq"

func (c *Consumer) deadLetterRecord(it *item, reason string) *kgo.Record {
	header := func(name, value string) kgo.RecordHeader {
		return kgo.RecordHeader{Key: "fencepost-dlq-" + name, Value: []byte(value)}
	}
	return &kgo.Record{
		Topic: c.cfg.Topic + deadLetterSuffix, Key: it.key, Value: it.value,
		Headers: []kgo.RecordHeader{
			header("reason", reason),
			header("topic", it.asg.topic),
			header("partition", strconv.Itoa(int(it.asg.partition))),
			header("offset", strconv.FormatInt(it.offset, 10)),
			header("time", time.UnixMilli(it.timestamp).UTC().Format(time.RFC3339Nano)),
		},
	}
}
