package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	// ErrNoTopic: there is no dead-letter topic.
	ErrNoTopic = errors.New("there is no such topic")
	// ErrNoLetter: it was never written, or retention has taken it.
	ErrNoLetter = errors.New("there is no such letter")
)

// Topic is a dead-letter topic.
type Topic struct {
	Name    string
	Options []kgo.Opt // how to reach the brokers
}

// Query says which letters are wanted.
type Query struct {
	Reason string // empty: any
	Since  time.Time
	Limit  int // the newest so many, by the time at which they were written; 0: all
}

type span struct{ from, to int64 }

// List reads the newest letters, oldest first. ErrNoTopic.
func (t Topic) List(ctx context.Context, q Query) ([]Letter, error) {
	spans, err := t.spans(ctx, q.Since)
	if err != nil {
		return nil, err
	}
	if q.Reason == "" && q.Limit > 0 {
		for p, s := range spans { // what is older than that in its partition is older than the limit
			spans[p] = span{max(s.from, s.to-int64(q.Limit)), s.to}
		}
	}
	var list []Letter
	err = t.read(ctx, spans, func(l Letter) {
		if q.Reason != "" && l.Reason != q.Reason {
			return
		}
		list = append(list, l)
		// Not at every letter: the limit bounds the memory, not to the letter.
		if q.Limit > 0 && len(list) >= 2*q.Limit+1000 {
			list = newest(list, q.Limit)
		}
	})
	return newest(list, q.Limit), err
}

func newest(list []Letter, limit int) []Letter {
	slices.SortFunc(list, func(a, b Letter) int {
		if c := a.WrittenAt.Compare(b.WrittenAt); c != 0 {
			return c
		}
		if a.ID.Partition != b.ID.Partition {
			return int(a.ID.Partition - b.ID.Partition)
		}
		return int(a.ID.Offset - b.ID.Offset)
	})
	if limit > 0 && len(list) > limit {
		list = slices.Clone(list[len(list)-limit:])
	}
	return list
}

// Get reads letters by their ids, in that order. ErrNoTopic, ErrNoLetter.
func (t Topic) Get(ctx context.Context, ids []ID) ([]Letter, error) {
	spans, err := t.spans(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	list := make([]Letter, 0, len(ids))
	for _, id := range ids {
		s, ok := spans[id.Partition]
		if !ok || id.Offset < s.from || id.Offset >= s.to {
			return nil, fmt.Errorf("letter %s of %s: %w", id, t.Name, ErrNoLetter)
		}
		found := false
		if err := t.read(ctx, map[int32]span{id.Partition: {id.Offset, id.Offset + 1}}, func(l Letter) {
			list, found = append(list, l), true
		}); err != nil {
			return nil, err
		}
		if !found {
			return nil, fmt.Errorf("letter %s of %s: %w", id, t.Name, ErrNoLetter)
		}
	}
	return list, nil
}

// spans are what there is to read now, by partition.
func (t Topic) spans(ctx context.Context, since time.Time) (map[int32]span, error) {
	client, err := kgo.NewClient(t.Options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics, err := admin.ListTopics(ctx, t.Name)
	if err == nil {
		err = topics[t.Name].Err
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), err == nil && len(topics[t.Name].Partitions) == 0:
		return nil, fmt.Errorf("topic %s: %w", t.Name, ErrNoTopic)
	case err != nil:
		return nil, fmt.Errorf("topic %s: %w", t.Name, err)
	}
	begin := admin.ListStartOffsets
	if !since.IsZero() {
		begin = func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return admin.ListOffsetsAfterMilli(ctx, since.UnixMilli(), topics...)
		}
	}
	starts, err := begin(ctx, t.Name)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("the beginning of topic %s: %w", t.Name, err)
	}
	ends, err := admin.ListCommittedOffsets(ctx, t.Name)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("the end of topic %s: %w", t.Name, err)
	}
	out := map[int32]span{}
	for p, end := range ends[t.Name] {
		out[p] = span{starts[t.Name][p].Offset, end.Offset}
	}
	return out, nil
}

// read gives each the letters of the spans.
func (t Topic) read(ctx context.Context, spans map[int32]span, each func(Letter)) error {
	from := map[int32]kgo.Offset{}
	for p, s := range spans {
		if s.from < s.to {
			from[p] = kgo.NewOffset().At(s.from)
		}
	}
	if len(from) == 0 {
		return nil
	}
	client, err := kgo.NewClient(append(t.Options[:len(t.Options):len(t.Options)],
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.Name: from}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // what retention took meanwhile is an error, never other letters
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // a partition may end with a transaction's marker
		kgo.FetchMaxWait(250*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer client.Close()
	for len(from) > 0 {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read topic %s: %w", t.Name, context.Cause(ctx))
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read topic %s: %w", t.Name, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			to := spans[r.Partition].to
			if r.Offset < to && !r.Attrs.IsControl() {
				each(decode(r))
			}
			if r.Offset+1 >= to {
				delete(from, r.Partition)
			}
		})
	}
	return nil
}
