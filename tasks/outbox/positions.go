package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// positions is where the group stands on the topic, and the topic with it, at about one moment.
type positions struct {
	id         kadm.TopicID
	partitions map[int32]position
}

type position struct {
	committed  int64 // -1: nothing
	start, end int64 // of the log
}

// readPositions asks the brokers. The ends are read last: whatever was acknowledged before the call is below them, and
// no commit to this log is above them.
func readPositions(ctx context.Context, client *kgo.Client, topic, group string) (p positions, err error) {
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(ctx, topic)
	if err == nil {
		err = topics.Error()
	}
	if err != nil {
		return p, fmt.Errorf("topic %s: %w", topic, err)
	}
	committed, err := admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // nobody has committed yet
		return p, fmt.Errorf("positions of group %s: %w", group, err)
	}
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return p, fmt.Errorf("start of %s: %w", topic, err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return p, fmt.Errorf("end of %s: %w", topic, err)
	}
	p = positions{id: topics[topic].ID, partitions: make(map[int32]position)}
	for n, end := range ends[topic] {
		start, there := starts.Lookup(topic, n)
		if !there {
			return p, fmt.Errorf("start of %s: no answer for partition %d", topic, n)
		}
		at := position{committed: -1, start: start.Offset, end: end.Offset}
		if c, there := committed.Lookup(topic, n); there {
			if c.Err != nil {
				return p, fmt.Errorf("positions of group %s: %w", group, c.Err)
			}
			at.committed = c.At
		}
		p.partitions[n] = at
	}
	if len(p.partitions) != len(topics[topic].Partitions) || len(p.partitions) == 0 {
		return p, fmt.Errorf("topic %s: %d partitions are known and %d have an end", topic, len(topics[topic].Partitions), len(p.partitions))
	}
	return p, nil
}

// continues reports whether p is of the log that mark was read of: the same topic and partitions, and none was cut off.
func (p positions) continues(mark positions) bool {
	for n, m := range mark.partitions {
		if now, there := p.partitions[n]; !there || now.end < m.end {
			return false
		}
	}
	return p.id == mark.id && len(p.partitions) == len(mark.partitions)
}

// passed reports whether nothing below the ends of mark is left to be read: the group has come to them, or what was
// there is deleted. A commit that was beyond the end already is not one to this log; it says nothing until it moves.
func (p positions) passed(mark positions) bool {
	for n, m := range mark.partitions {
		now, there := p.partitions[n]
		foreign := m.committed > m.end && now.committed == m.committed
		if !there || now.start < m.end && (now.committed < m.end || foreign) {
			return false
		}
	}
	return true
}
