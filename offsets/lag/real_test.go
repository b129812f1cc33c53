package lag

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/e2e/broker"
)

// What kfake does not do as a real broker does: compaction by segments, markers, and topics that are made again.

// realKit is a kit on a real broker, with the topic named.
func realKit(t *testing.T, b *broker.Broker) *kit {
	t.Helper()
	k := &kit{T: t, addrs: b.Addrs}
	k.client = k.connect(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	k.admin = kadm.NewClient(k.client)
	return k
}

func TestRealTransactionsAndRecreatedTopics(t *testing.T) {
	b := broker.Shared(t)
	k := realKit(t, b)
	topic := broker.Topic(t, b, 1)
	k.config = Config{Client: k.client, Group: topic, Topic: topic}
	p := k.connect(kgo.TransactionalID(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for n, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			k.produce(p, &kgo.Record{Topic: topic, Value: value(10*n + i)})
		}
		if err := p.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	// 0 1 marker, 3 4 aborted marker, 6 7 marker.
	want := func(committed, lag, exact, head Offset) {
		t.Helper()
		k.commitFor(topic, topic, committed)
		k.config.Exact = false
		k.want(k.read().Partitions[0], committed, committed, 9, lag, 0, head)
		k.config.Exact = true
		k.want(k.read().Partitions[0], committed, committed, 9, exact, 0, head)
	}
	want(0, 9, 4, 0)
	want(2, 7, 2, 6)
	want(8, 0, 0, None)
	want(9, 0, 0, None)

	if _, err := k.admin.DeleteTopics(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		made, err := k.admin.CreateTopic(t.Context(), 1, 1, nil, topic)
		if err == nil && made.Err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("make it again: %v, %v", err, made.Err)
		}
	}
	k.client = k.connect(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	k.produce(k.client, &kgo.Record{Topic: topic, Value: value(99)})
	k.config.Exact = false
	r := k.read() // by the client that knew the old one
	k.want(r.Partitions[0], None, 0, 1, 1, 0, 0)
	if r.Partitions[0].Head.Task != taskID(99).String() {
		t.Errorf("head %+v", r.Partitions[0].Head)
	}
}

func TestRealCompaction(t *testing.T) {
	b := broker.Start(t, broker.Config("log.cleaner.backoff.ms", "100"), broker.Config("log.retention.check.interval.ms", "100"))
	k := realKit(t, b)
	const topic = "compacted"
	value := func(s string) *string { return &s }
	made, err := k.admin.CreateTopic(t.Context(), 1, 1, map[string]*string{
		"cleanup.policy": value("compact"), "segment.ms": value("200"), "min.cleanable.dirty.ratio": value("0.01"),
		"min.compaction.lag.ms": value("0"), "max.compaction.lag.ms": value("200"),
	}, topic)
	if err != nil || made.Err != nil {
		t.Fatal(err, made.Err)
	}
	k.config = Config{Client: k.client, Group: topic, Topic: topic, Exact: true}
	k.commitFor(topic, topic, 3)
	// One segment full of records that others replace; a later record rolls it away.
	written := int64(0)
	put := func(key string) {
		k.produce(k.client, &kgo.Record{Topic: topic, Key: []byte(key), Value: fmt.Appendf(nil, "%d", written), Timestamp: time.Now()})
		written++
	}
	put("first")
	for n := range 50 {
		put(fmt.Sprint("k", n%2))
	}
	for deadline := time.Now().Add(60 * time.Second); ; {
		time.Sleep(300 * time.Millisecond)
		put("k0") // rolls the segment
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r, err := Read(ctx, k.config)
		cancel()
		if err != nil || len(r.Problems) > 0 {
			t.Fatal(err, r.Problems)
		}
		p := r.Partitions[0]
		if int64(p.End) != written || p.Committed != 3 {
			t.Fatalf("committed %d, end %d, want 3, %d", p.Committed, p.End, written)
		}
		if p.Exact && p.Lag < p.End-p.Committed-20 && p.Lag > 0 {
			k.config.Exact = false
			plain := k.read().Partitions[0]
			if plain.Lag != p.End-3 || plain.Head == nil || plain.Head.Offset <= 3 {
				t.Errorf("lag %d, head %+v; exact %d, head %+v", plain.Lag, plain.Head, p.Lag, p.Head)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not compacted: lag %d of %d", p.Lag, written)
		}
	}
}

// commitFor is the commit of any group.
func (k *kit) commitFor(group, topic string, offset Offset) {
	k.Helper()
	var o kadm.Offsets
	o.AddOffset(topic, 0, int64(offset), -1)
	if err := k.admin.CommitAllOffsets(k.Context(), group, o); err != nil {
		k.Fatal(err)
	}
}
