package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/offsets"
)

// Resume returns what the group had committed for a partition when it was last assigned to this client: the position,
// -1 when there was none, and what was settled ahead of it. It answers once for each assignment.
//
// franz-go reads the offsets after OnPartitionsAssigned has returned, and before AdjustFetchOffsetsFn and the first
// record: ask from there on. Partitions that a rebalance left where they were are not read again.
//
// ahead speaks of the log as it was. Where reading starts before committed, the log has been cut back or replaced, other
// records may have those offsets now, and ahead must be thrown away.
func (c *Committer) Resume(topic string, id int32) (committed int64, ahead []offsets.Run) {
	p := partition{topic, id}
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.fetched[p]
	if !ok {
		return -1, nil
	}
	delete(c.fetched, p)
	return f.committed, f.ahead
}

// Forget lets the next commit of the partition go back behind the last. It is for a log that was cut back under a
// running assignment; a new assignment needs no Forget.
func (c *Committer) Forget(topic string, id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.floor, partition{topic, id})
}

func (c *Committer) onFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, rp := range t.Partitions {
				// A partition that failed is not assigned, or is fetched again; franz-go sees to both.
				if rp.ErrorCode != 0 || t.Topic == "" {
					continue
				}
				p := partition{t.Topic, rp.Partition}
				// The assignment is new, and so is its first position: a recreated topic starts over at 0, and a commit
				// beyond the log's end is followed by one from its start.
				delete(c.floor, p)
				c.fetched[p] = c.decode(p, rp)
			}
		}
	}
	return nil
}

func (c *Committer) decode(p partition, rp kmsg.OffsetFetchResponseGroupTopicPartition) fetched {
	if rp.Offset < 0 {
		return fetched{committed: -1}
	}
	f := fetched{committed: rp.Offset}
	if rp.Metadata == nil {
		return f
	}
	ahead, err := offsets.DecodeRuns(rp.Offset, *rp.Metadata)
	// Foreign metadata is the rule, not the exception: every commit of another tool, and of franz-go by default, has it.
	if errors.Is(err, offsets.ErrCorrupt) && !c.warned[p] {
		c.warned[p] = true
		c.log.Warn("ignoring unreadable commit metadata; records settled ahead are read again",
			"group", c.group, "topic", p.topic, "partition", p.id, "committed", rp.Offset, "metadata_bytes", len(*rp.Metadata))
	}
	f.ahead = ahead
	return f
}
