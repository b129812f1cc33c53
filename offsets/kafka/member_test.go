package kafka

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/e2e/broker"
	"github.com/fencepost/fencepost/offsets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(broker.Main(m)) }

// member is a client in a group with its committer.
type member struct {
	t        *testing.T
	cl       *kgo.Client
	com      *Committer
	log      *logBuffer
	topic    string
	assigned chan struct{} // a token for each assignment whose offsets were read
}

const group = "g"

// join starts a member and returns without waiting for an assignment.
func join(t *testing.T, addrs []string, topic string, cfg Config, opts ...kgo.Opt) *member {
	t.Helper()
	m := &member{t: t, topic: topic, log: &logBuffer{}, assigned: make(chan struct{}, 100)}
	cfg.Logger = slog.New(slog.NewTextHandler(m.log, nil))
	if cfg.Group == "" {
		cfg.Group = group
	}
	m.com = New(cfg)
	opts = append(opts, kgo.SeedBrokers(addrs...), kgo.ConsumerGroup(cfg.Group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(500*time.Millisecond), kgo.MetadataMinAge(100*time.Millisecond),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AdjustFetchOffsetsFn(func(_ context.Context, o map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			m.assigned <- struct{}{}
			return o, nil
		}))
	cl, err := kgo.NewClient(append(opts, m.com.Opts()...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	m.cl = cl
	m.com.Bind(cl)
	return m
}

// owner joins and waits for its partitions.
func owner(t *testing.T, addrs []string, topic string, cfg Config, opts ...kgo.Opt) *member {
	t.Helper()
	m := join(t, addrs, topic, cfg, opts...)
	m.awaitAssigned()
	return m
}

func (m *member) awaitAssigned() {
	m.t.Helper()
	select {
	case <-m.assigned:
	case <-time.After(30 * time.Second):
		m.t.Fatal("no partition was assigned")
	}
}

func (m *member) id() string {
	id, _ := m.cl.GroupMetadata()
	return id
}

// commit commits one partition under the current member id.
func (m *member) commit(partition int32, offset int64, ahead ...offsets.Run) error {
	return m.com.Commit(m.t.Context(), m.id(), []offsets.Commit{m.item(partition, offset, ahead...)})[0]
}

func (m *member) item(partition int32, offset int64, ahead ...offsets.Run) offsets.Commit {
	return offsets.Commit{Topic: m.topic, Partition: partition, Position: offsets.Position{Offset: offset, LeaderEpoch: 0}, Ahead: ahead}
}

// awaitOtherID waits until the member has joined again.
func (m *member) awaitOtherID(was string) {
	m.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for id := m.id(); id == was || id == ""; id = m.id() {
		if time.Now().After(deadline) {
			m.t.Fatal("the member did not join again")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// commitSoon commits as soon as the rebalances let it.
func commitSoon(t *testing.T, m *member, offset int64) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := m.commit(0, offset)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stored reads what the group has for a partition.
func stored(t *testing.T, addrs []string, group, topic string, partition int32) kadm.OffsetResponse {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	all, err := kadm.NewClient(cl).FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	o, ok := all.Lookup(topic, partition)
	if !ok {
		return kadm.OffsetResponse{Offset: kadm.Offset{At: -1}}
	}
	return o
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}
