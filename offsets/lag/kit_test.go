package lag

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/offsets"
)

const (
	topicName = "tasks"
	groupName = "workers"
)

// kit is a broker with a topic, and what reads and writes it.
type kit struct {
	*testing.T
	cluster *kfake.Cluster // nil on a real broker
	addrs   []string
	client  *kgo.Client
	admin   *kadm.Client
	config  Config
}

func newKit(t *testing.T, partitions int32, opts ...kfake.Opt) *kit {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2), kfake.SeedTopics(partitions, topicName)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	k := &kit{T: t, cluster: cluster, addrs: cluster.ListenAddrs()}
	k.client = k.connect(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	k.admin = kadm.NewClient(k.client)
	k.config = Config{Client: k.client, Group: groupName, Topic: topicName}
	return k
}

func (k *kit) connect(opts ...kgo.Opt) *kgo.Client {
	k.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(k.addrs...), kgo.MetadataMinAge(10 * time.Millisecond), kgo.DefaultProduceTopic(topicName),
		kgo.ProducerLinger(0), kgo.RetryTimeout(2 * time.Second),
	}, opts...)...)
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(c.Close)
	return c
}

// at is the time of every record.
var at = time.Now().Add(-time.Hour).Truncate(time.Millisecond)

// taskID is that of the n-th task.
func taskID(n int) uuid.UUID { return uuid.UUID{7, byte(n >> 8), byte(n)} }

// put produces records that point at tasks from..to-1, each in a batch of its own.
func (k *kit) put(partition int32, from, to int) {
	k.Helper()
	for n := from; n < to; n++ {
		k.produce(k.client, &kgo.Record{Partition: partition, Value: value(n)})
	}
}

func value(n int) []byte {
	return fmt.Appendf(nil, `{"v":1,"task":"%s","workspace":"w"}`, taskID(n))
}

func (k *kit) produce(c *kgo.Client, r *kgo.Record) {
	k.Helper()
	if r.Timestamp.IsZero() {
		r.Timestamp = at
	}
	if err := c.ProduceSync(k.Context(), r).FirstErr(); err != nil {
		k.Fatal(err)
	}
}

// commit is the group's, without a member.
func (k *kit) commit(partition int32, offset int64, ahead ...offsets.Run) {
	k.Helper()
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: topicName, Partition: partition, At: offset, LeaderEpoch: 0, Metadata: offsets.EncodeRuns(offset, ahead, 4096)})
	if err := k.admin.CommitAllOffsets(k.Context(), groupName, o); err != nil {
		k.Fatal(err)
	}
}

func (k *kit) read() Report {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), 20*time.Second)
	defer cancel()
	r, err := Read(ctx, k.config)
	if err != nil {
		k.Fatal(err)
	}
	if len(r.Problems) > 0 {
		k.Errorf("problems: %q", r.Problems)
	}
	return r
}

// want compares the numbers of a partition: committed, position, end, lag, settled ahead, head.
func (k *kit) want(p Partition, committed, position, end, lag, ahead, head Offset) {
	k.Helper()
	got := [6]Offset{p.Committed, p.Position, p.End, p.Lag, p.SettledAhead, None}
	if p.Head != nil {
		got[5] = p.Head.Offset
	}
	if want := [6]Offset{committed, position, end, lag, ahead, head}; got != want {
		k.Errorf("partition %d: committed, position, end, lag, ahead, head are %d, want %d", p.Partition, got, want)
	}
}

// aged wants the age of the records that the kit makes.
func (k *kit) aged(p Partition) {
	k.Helper()
	if d := p.LagSeconds.Duration(); d < time.Hour || d > time.Hour+time.Minute {
		k.Errorf("partition %d: %v old, want an hour", p.Partition, d)
	}
}

// run is one span.
func run(from, to int64) offsets.Run { return offsets.Run{From: from, To: to} }

// fakeStore is what a database says.
type fakeStore struct {
	stored []Stored
	states map[uuid.UUID]TaskState
	err    error
}

func (f fakeStore) Stored(context.Context, string) ([]Stored, error) { return f.stored, f.err }

func (f fakeStore) TaskStates(_ context.Context, ids []uuid.UUID) (map[uuid.UUID]TaskState, error) {
	out := make(map[uuid.UUID]TaskState)
	for _, id := range ids {
		if s, ok := f.states[id]; ok {
			out[id] = s
		}
	}
	return out, f.err
}

func (k *kit) topicID() [16]byte {
	k.Helper()
	topics, err := k.admin.ListTopics(k.Context(), topicName)
	if err != nil {
		k.Fatal(err)
	}
	return topics[topicName].ID
}
