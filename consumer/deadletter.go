package consumer

import (
	"context"
	"strconv"
	"time"

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
		for {
			ctx, cancel := context.WithTimeout(c.callCtx, storeTimeout)
			err := c.producer.ProduceSync(ctx, c.deadLetterRecord(it, reason)).FirstErr()
			cancel()
			if err == nil {
				c.log.Warn("record dead-lettered", "reason", reason, "topic", it.asg.topic, "partition", it.asg.partition, "offset", it.offset, "task", it.ref.TaskID)
				c.endApart("dead_lettered", it)
				return
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
