package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	// ErrTopic: there is no such topic.
	ErrTopic = errors.New("there is no such topic")
	// ErrPartition: the topic has no such partition.
	ErrPartition = errors.New("no such partition")
)

// readTimeout is how long the reader waits for the next record of a range that is in the log. Only the very end of a
// compacted log can be without records; topics of ours are not compacted.
const readTimeout = 30 * time.Second

// Log is one topic, read without a group.
type Log struct {
	Topic   string
	Options []kgo.Opt // how to reach the brokers
	admin   *kadm.Client
}

// NewLog reads the topic through clients with these options; admin is the caller's.
func NewLog(topic string, admin *kadm.Client, options []kgo.Opt) *Log {
	return &Log{Topic: topic, Options: options, admin: admin}
}

// Describe returns the topic's id and the bounds of its partitions. What an open transaction has written is beyond the end.
// ErrTopic.
func (l *Log) Describe(ctx context.Context) (id [16]byte, bounds map[int32]Bounds, err error) {
	topics, err := l.admin.ListTopics(ctx, l.Topic)
	if err == nil {
		err = topics[l.Topic].Err
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition) || err == nil && len(topics[l.Topic].Partitions) == 0:
		return id, nil, fmt.Errorf("topic %s: %w", l.Topic, ErrTopic)
	case err != nil:
		return id, nil, fmt.Errorf("describe topic %s: %w", l.Topic, err)
	}
	starts, err := l.admin.ListStartOffsets(ctx, l.Topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return id, nil, fmt.Errorf("read the starts of topic %s: %w", l.Topic, err)
	}
	ends, err := l.admin.ListCommittedOffsets(ctx, l.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return id, nil, fmt.Errorf("read the ends of topic %s: %w", l.Topic, err)
	}
	bounds = make(map[int32]Bounds)
	for p, start := range starts[l.Topic] {
		bounds[p] = Bounds{Start: start.Offset, End: max(start.Offset, ends[l.Topic][p].Offset)}
	}
	return topics[l.Topic].ID, bounds, nil
}

// after finds the first record of each partition that is as new as t; the end where there is none.
func (l *Log) after(ctx context.Context, t time.Time, bounds map[int32]Bounds) (map[int32]int64, error) {
	list, err := l.admin.ListOffsetsAfterMilli(ctx, t.UnixMilli(), l.Topic)
	if err == nil {
		err = list.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s in topic %s: %w", t.UTC().Format(time.RFC3339), l.Topic, err)
	}
	out := make(map[int32]int64)
	for p, b := range bounds {
		// A record that came after the bounds were read is not part of what they describe.
		out[p] = min(list[l.Topic][p].Offset, b.End)
	}
	return out, nil
}

// Resolve finds a target in each of the partitions. position may be nil where the target is not a Shift. ErrPartition,
// ErrRange, ErrNoPosition.
func (l *Log) Resolve(ctx context.Context, t Target, partitions []int32, bounds map[int32]Bounds, position map[int32]int64, clamp bool) (map[int32]int64, error) {
	var since map[int32]int64
	if t.kind == toTime {
		var err error
		if since, err = l.after(ctx, t.at, bounds); err != nil {
			return nil, err
		}
	}
	out := make(map[int32]int64, len(partitions))
	for _, p := range partitions {
		b, ok := bounds[p]
		if !ok {
			return nil, fmt.Errorf("partition %d of topic %s: %w, it has %d", p, l.Topic, ErrPartition, len(bounds))
		}
		at, ok := position[p]
		if !ok {
			at = -1
		}
		offset, err := t.resolve(p, b, since[p], at, clamp)
		if err != nil {
			return nil, err
		}
		out[p] = offset
	}
	return out, nil
}

// Spans are the ranges between two targets, by partition. ErrRange also where a range would end before it begins.
func (l *Log) Spans(ctx context.Context, from, to Target, partitions []int32, bounds map[int32]Bounds, clamp bool) ([]Span, error) {
	first, err := l.Resolve(ctx, from, partitions, bounds, nil, clamp)
	if err != nil {
		return nil, err
	}
	beyond, err := l.Resolve(ctx, to, partitions, bounds, nil, clamp)
	if err != nil {
		return nil, err
	}
	var spans []Span
	for _, p := range slices.Sorted(slices.Values(partitions)) {
		if beyond[p] < first[p] {
			if !clamp {
				return nil, fmt.Errorf("partition %d: %w: the range begins at %d and ends at %d", p, ErrRange, first[p], beyond[p])
			}
			beyond[p] = first[p]
		}
		spans = append(spans, Span{Partition: p, From: Offset(first[p]), To: Offset(beyond[p])})
	}
	return spans, nil
}

// Read yields the records of spans from the cursor on, partition by partition, in order. An error ends it.
func (l *Log) Read(ctx context.Context, spans []Span, cursor Cursor) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for _, s := range spans {
			from := max(int64(s.From), cursor.Partitions[s.Partition])
			if from < int64(s.To) && !l.read(ctx, s.Partition, from, int64(s.To), yield) {
				return
			}
		}
	}
}

// read yields [from, to) of one partition, and reports whether there may be more.
func (l *Log) read(ctx context.Context, partition int32, from, to int64, yield func(Item, error) bool) bool {
	client, err := kgo.NewClient(append(l.Options[:len(l.Options):len(l.Options)],
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.Topic: {partition: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // what is gone is an error, never somewhere else
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // a range may end with a transaction's marker
		kgo.FetchMaxWait(500*time.Millisecond))...)
	if err != nil {
		yield(Item{}, fmt.Errorf("open a reader: %w", err))
		return false
	}
	defer client.Close()
	for {
		poll, cancel := context.WithTimeout(ctx, readTimeout)
		fetches := client.PollFetches(poll)
		cancel()
		if ctx.Err() != nil {
			yield(Item{}, context.Cause(ctx))
			return false
		}
		if err := fetches.Err(); err != nil {
			yield(Item{}, fmt.Errorf("read partition %d of topic %s from %d: %w", partition, l.Topic, from, err))
			return false
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if r.Offset >= to {
				return true
			}
			if from = r.Offset + 1; !r.Attrs.IsControl() {
				item := Item{Partition: partition, Offset: r.Offset}
				item.Ref, item.Readable = decode(r.Value)
				if !yield(item, nil) {
					return false
				}
			}
		}
		if from >= to {
			return true
		}
	}
}
