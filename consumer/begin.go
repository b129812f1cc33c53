package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/offsets"
)

// Owners keeps positions with the replies, beside the group's commits, which follow behind.
type Owners interface {
	// Acquire makes worker the owner of each partition: stores under older epochs are refused from here on.
	Acquire(ctx context.Context, worker string, items []offsets.Begin) ([]offsets.Begun, error)
	// Settle stores places of records that ended without a settle of their own. False: a newer owner refused it.
	Settle(ctx context.Context, places []offsets.Place) ([]bool, error)
}

// beginTimeout bounds what is asked of the broker and of the owners when partitions are assigned.
const beginTimeout = 10 * time.Second

// Why a partition does not simply go on where the group's commit stands. Each is logged and counted.
const (
	beginNoCommit   = "no_commit"   // from the log's start
	beginBelowStart = "below_start" // retention took unread records: from the log's start; their tasks are recovered
	beginBeyondEnd  = "beyond_end"  // the log was replaced or cut back: from its start; finished tasks cost a look-up each
	beginLogCut     = "log_cut"     // the same, seen at the first record
	beginUnknown    = "unknown"     // the log's ends could not be read: as the client sees fit
)

var beginEvents = []string{beginNoCommit, beginBelowStart, beginBeyondEnd, beginLogCut, beginUnknown}

// logRange is a partition's log when it was assigned. End -1: it could not be read.
type logRange struct{ start, end int64 }

// begin decides where a partition begins: settled is all that is known to be settled, ascending. It returns the offset
// and what of settled lies beyond it.
func begin(settled []offsets.Run, log logRange) (at int64, ahead []offsets.Run, event string) {
	at = -1
	if len(settled) > 0 && settled[0].From == 0 {
		at, settled = settled[0].To, settled[1:]
	}
	switch {
	case log.end < 0:
		return at, settled, beginUnknown
	case at > log.end:
		return log.start, nil, beginBeyondEnd
	case at < 0:
		at, event = log.start, beginNoCommit
	case at < log.start:
		at, event = log.start, beginBelowStart
	}
	// What is settled from the log's new start on moves the beginning, too.
	for len(settled) > 0 && settled[0].From <= at {
		at, settled = max(at, settled[0].To), settled[1:]
	}
	for i := range settled {
		if settled[i].To > log.end { // such a record does not exist yet
			settled = settled[:i]
			break
		}
	}
	return min(at, log.end), settled, event
}

// onOffsets is called between the fetch of committed offsets and the first record of newly assigned partitions. It
// takes their ownership and decides where each begins. An error makes the client give the assignment up and try again.
func (s *session) onOffsets(ctx context.Context, fetched map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	<-s.built
	c := s.c
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	logs, topicIDs, err := s.logs(ctx)
	if err != nil {
		c.log.Warn("the log's ends cannot be read; committed positions are taken as they are", "error", err)
		if c.cfg.Owners != nil {
			return nil, fmt.Errorf("read the log's ends: %w", err)
		}
	}

	var keys []partitionKey
	var items []offsets.Begin
	var committed []int64
	for topic, partitions := range fetched {
		for p := range partitions {
			if _, read := logs[partitionKey{topic, p}]; !read && c.cfg.Owners != nil {
				return nil, fmt.Errorf("the log's ends of partition %d of %s could not be read", p, topic) // End 0 would say that it is empty
			}
			at, ahead := c.positions.Resume(topic, p)
			var settled []offsets.Run
			if at >= 0 {
				settled = append(settled, offsets.Run{From: 0, To: at})
			}
			if len(ahead) > 0 && ahead[0].From == at { // found settled at the position itself
				settled[0].To, ahead = ahead[0].To, ahead[1:]
			}
			keys, committed = append(keys, partitionKey{topic, p}), append(committed, at)
			items = append(items, offsets.Begin{Group: c.cfg.Group, Topic: topic, TopicID: topicIDs[topic], Partition: p,
				Settled: append(settled, ahead...), End: logs[partitionKey{topic, p}].end})
		}
	}
	begun := make([]offsets.Begun, len(items))
	if c.cfg.Owners != nil && len(items) > 0 {
		if begun, err = c.cfg.Owners.Acquire(ctx, c.cfg.Worker, items); err != nil {
			c.log.Error("the ownership of partitions cannot be taken, trying again", "partitions", len(items), "error", err)
			return nil, fmt.Errorf("take the ownership: %w", err)
		}
	} else {
		for i := range items {
			begun[i].Settled = items[i].Settled
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	for i, key := range keys {
		log, ok := logs[key]
		if !ok {
			log.end = -1
		}
		at, ahead, event := begin(begun[i].Settled, log)
		if event != "" {
			c.beginEvent(event, key, committed[i], at, log)
		}
		if at != committed[i] && at >= 0 {
			fetched[key.topic][key.partition] = kgo.NewOffset().At(at)
		}
		if a := s.assignments[key]; a != nil {
			a.begin(at, committed[i], ahead, begun[i].Owner, event)
		}
	}
	return fetched, nil
}

func (c *Consumer) beginEvent(event string, key partitionKey, committed, at int64, log logRange) {
	c.metrics.beginEvents.WithLabelValues(event).Inc()
	c.log.Warn("partition does not begin at its committed position", "why", event, "topic", key.topic, "partition", key.partition,
		"committed", committed, "begins_at", at, "log_start", log.start, "log_end", log.end)
}

// logs reads the ends of the topic's partitions and the topic's id.
func (s *session) logs(ctx context.Context) (map[partitionKey]logRange, map[string][16]byte, error) {
	admin := kadm.NewClient(s.client)
	topic := s.c.cfg.Topic
	details, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	if err := details[topic].Err; err != nil {
		return nil, nil, err
	}
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	logs := map[partitionKey]logRange{}
	starts.Each(func(start kadm.ListedOffset) {
		if end, ok := ends.Lookup(start.Topic, start.Partition); ok && start.Err == nil && end.Err == nil {
			logs[partitionKey{start.Topic, start.Partition}] = logRange{start.Offset, end.Offset}
		}
	})
	return logs, map[string][16]byte{topic: details[topic].ID}, nil
}
