package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/offsets"
	owners "github.com/fencepost/fencepost/offsets/postgres"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

// kept is a world whose store is Postgres, where positions can be kept with the replies.
type kept struct {
	*world
	positions *owners.Positions
	claims    *claims
}

// claims counts how often each task was asked for.
type claims struct {
	tasks.Store
	mu sync.Mutex
	of map[uuid.UUID]int
}

func (c *claims) Claim(ctx context.Context, by tasks.Claimer, items []tasks.Ref) ([]tasks.Claimed, error) {
	c.mu.Lock()
	for _, ref := range items {
		c.of[ref.TaskID]++
	}
	c.mu.Unlock()
	return c.Store.Claim(ctx, by, items)
}

func (c *claims) count(id uuid.UUID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[id]
}

func newKept(t *testing.T, partitions int32) *kept {
	t.Helper()
	w := newWorld(t, partitions)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	k := &kept{world: w, positions: owners.New(store.Pool()), claims: &claims{Store: store, of: map[uuid.UUID]int{}}}
	w.tasks = k.claims
	return k
}

// with keeps the positions of a worker with the replies.
func (k *kept) with(c *consumer.Config) { c.Owners = k.positions }

// stored is what is kept of a partition: of the topic as it is now, the newest one last.
func (k *kept) stored(partition int32) (all []owners.State) {
	k.t.Helper()
	states, err := k.positions.Read(context.Background(), group)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, s := range states {
		if s.Partition == partition {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b owners.State) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	return all
}

// wantStored waits until exactly these spans are kept of a partition, of whatever topic was written last.
func (k *kept) wantStored(partition int32, want ...offsets.Run) {
	k.t.Helper()
	eventually(k.t, fmt.Sprintf("settled of partition %d is %v", partition, want), func() bool {
		all := k.stored(partition)
		return len(all) > 0 && slices.Equal(all[len(all)-1].Settled, want)
	})
}

func (k *kept) wantCalls(content string, n int) {
	k.t.Helper()
	if got := k.model.called(content); got != n {
		k.t.Errorf("%s: %d calls, want %d", content, got, n)
	}
}

// A worker none of whose commits reaches the group dies. What it has settled is not even looked up again: finished and dead
// letters too, whose place is stored apart from any reply.
func TestI2_PositionAndReplyAreCommittedTogether(t *testing.T) {
	k := newKept(t, 1)
	fault := k.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: group, Err: kerr.NotCoordinator, Count: -1})
	open := k.model.gate("slow")
	defer open()
	var done []uuid.UUID
	for i := range 20 {
		done = append(done, k.send(0, fmt.Sprint("a", i), "quick"))
	}
	slow := k.send(0, "slow", "slow")
	for i := range 20 {
		done = append(done, k.send(0, fmt.Sprint("b", i), "quick"))
	}
	k.publish(0, "a0", done[0])
	k.produce(0, "", "not a record of ours")
	first := k.start("w1", k.with, func(c *consumer.Config) { c.DrainTimeout = 50 * time.Millisecond })
	k.wantStored(0, offsets.Run{From: 0, To: 20}, offsets.Run{From: 21, To: 43})
	first.shutdown(t)
	if at := k.committed(0); at > 0 || fault.Hits() == 0 {
		t.Fatalf("committed at %d after %d refusals: the test shows nothing", at, fault.Hits())
	}
	fault.Remove()
	before := k.claims.count(done[0])

	k.start("w2", k.with)
	open()
	k.finished(slow, tasks.StatusCompleted)
	eventually(t, "the group's commit follows", func() bool { return k.committed(0) == 43 })
	k.wantStored(0, offsets.Run{From: 0, To: 43})
	k.wantCalls("quick", len(done))
	for i, id := range done {
		if n := k.claims.count(id); i > 0 && n != 1 || i == 0 && n != before {
			t.Errorf("task %d was claimed %d times", i, n)
		}
	}
	ends, err := k.admin.ListEndOffsets(t.Context(), topic+".dlq")
	if end, _ := ends.Lookup(topic+".dlq", 0); err != nil || end.Offset != 1 {
		t.Errorf("%d dead letters, %v", end.Offset, err)
	}
}

// A group goes from one place to the other and back, each time with a record that holds the position back, one that is in
// work, and records settled beyond.
func TestI2_ChangingThePlaceLosesAndRepeatsNothing(t *testing.T) {
	k := newKept(t, 2)
	var mu sync.Mutex
	answered := make(map[int]bool) // heads of these phases: from the next phase on
	var ids, heads []uuid.UUID
	phases := []struct {
		name   string
		change func(*consumer.Config)
	}{{"kafka", func(*consumer.Config) {}}, {"postgres", k.with}, {"kafka-again", func(*consumer.Config) {}}, {"postgres-again", k.with}}
	for n, phase := range phases {
		head := fmt.Sprint("head ", n)
		k.model.on(head, func(ctx context.Context, _ int) (llm.Answer, error) {
			mu.Lock()
			defer mu.Unlock()
			if answered[n] {
				return answer("ok"), nil
			}
			return fails(llm.Overloaded, 1500*time.Millisecond)
		})
		for p := range int32(2) {
			heads = append(heads, k.send(p, fmt.Sprint("head", n), head, func(s *tasks.Submission) { s.MaxAttempts = 20 }))
			for i := range 15 {
				ids = append(ids, k.send(p, fmt.Sprint("c", n, i), fmt.Sprint("m", n)))
			}
		}
		run := k.start(phase.name, phase.change)
		for _, id := range ids {
			k.finished(id, tasks.StatusCompleted)
		}
		run.shutdown(t)
		mu.Lock()
		answered[n] = true
		mu.Unlock()
	}
	last := k.start("last")
	for _, id := range heads {
		k.finished(id, tasks.StatusCompleted)
	}
	for p := range int32(2) {
		eventually(t, "all is committed", func() bool { return k.committed(p) == int64(16*len(phases)) })
	}
	last.shutdown(t)
	for n := range phases {
		k.wantCalls(fmt.Sprint("m", n), 30)
	}
	for _, id := range ids {
		// A record that is settled ahead, in either place, is not looked at again.
		if n := k.claims.count(id); n != 1 {
			t.Errorf("%s was claimed %d times", k.task(id).Conversation, n)
		}
	}
}

// A topic that is deleted and made again under a group whose positions are kept with the replies.
func TestI2_ARecreatedTopicBeginsAnewInPostgres(t *testing.T) {
	k := newKept(t, 1)
	run := k.start("w1", k.with)
	for i := range 8 {
		k.finished(k.send(0, "c", fmt.Sprint("old", i)), tasks.StatusCompleted)
	}
	eventually(t, "committed", func() bool { return k.committed(0) == 8 })
	run.shutdown(t)
	if err := errors.Join(k.cluster.DeleteTopic(topic), k.cluster.CreateTopic(topic, 1, nil)); err != nil {
		t.Fatal(err)
	}
	k.client.ForceMetadataRefresh()
	k.client.PurgeTopicsFromClient(topic)
	k.commit(0, 8, "") // brokers forget the group's position with the topic, but not at once
	var ids []uuid.UUID
	for i := range 3 {
		ids = append(ids, k.send(0, "c", fmt.Sprint("new", i)))
	}
	k.start("w2", k.with)
	for i, id := range ids {
		k.finished(id, tasks.StatusCompleted)
		k.wantCalls(fmt.Sprint("new", i), 1)
	}
	k.wantStored(0, offsets.Run{From: 0, To: 3})
	if all := k.stored(0); len(all) != 2 || !slices.Equal(all[0].Settled, []offsets.Run{{From: 0, To: 8}}) {
		t.Errorf("%+v", all)
	}
	eventually(t, "the group's commit is that of the new topic", func() bool { return k.committed(0) == 3 })
}

// What compaction took is settled with the record behind it, whether that ends by a settle or apart, and the spans join.
func TestI2_GapsAreSettledWithTheRecordBehindThem(t *testing.T) {
	k := newKept(t, 1)
	const compacted = "compacted"
	err := errors.Join(k.cluster.CreateTopic(compacted, 1, map[string]string{"cleanup.policy": "compact"}), k.cluster.CreateTopic(compacted+".dlq", 1, nil))
	if err != nil {
		t.Fatal(err)
	}
	produce := func(key, value string) {
		rec := &kgo.Record{Topic: compacted, Key: []byte(key), Value: []byte(value)}
		if err := k.client.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	var last uuid.UUID
	for i := range 20 {
		last = k.submit(fmt.Sprint("c", i), "m")
		produce(fmt.Sprint("k", min(i, 1+i%2)), `{"v":1,"task":"`+last.String()+`","workspace":"acme"}`)
	}
	for range 3 {
		produce("other", "unreadable")
	}
	k.cluster.Compact()
	k.start("w1", k.with, func(c *consumer.Config) { c.Topic = compacted })
	k.finished(last, tasks.StatusCompleted)
	k.wantStored(0, offsets.Run{From: 0, To: 23}) // 0, 18, 19 and some of the last
	if n := k.model.called("m"); n > 10 {
		t.Errorf("%d calls: nothing was compacted, so the test shows nothing", n)
	}
}

// The old owner's answer is good, its place is not: the successor waits for the task and stores the place as its own.
func TestI4_AFencedOwnersAnswerIsSaved(t *testing.T) {
	k := newKept(t, 1)
	open := k.model.gate("long")
	defer open()
	registry := prometheus.NewRegistry()
	id := k.send(0, "c", "long")
	first := k.start("w1", k.with, func(c *consumer.Config) {
		c.DrainTimeout, c.StopTimeout, c.Registerer = 50*time.Millisecond, 20*time.Second, registry
	})
	eventually(t, "the call is open", func() bool { return k.model.open.Load() == 1 })
	first.stop(errors.New("deploy"))
	second := k.start("w2", k.with)
	eventually(t, "the second has the partition and parks its record", func() bool {
		p := second.Partitions()
		return len(p) == 1 && p[0].InFlight == 1 && k.claims.count(id) > 1
	})
	k.wantStored(0)
	if epoch := k.stored(0)[0].Epoch; epoch != 2 {
		t.Fatalf("epoch %d", epoch)
	}
	open()
	first.shutdown(t)
	k.finished(id, tasks.StatusCompleted)
	if n := counter(t, registry, "fencepost_consumer_fenced_places_total"); n != 1 {
		t.Errorf("%v places of the old owner were refused, want 1", n)
	}
	k.wantStored(0, offsets.Run{From: 0, To: 1})
	eventually(t, "the second commits it", func() bool { return k.committed(0) == 1 })
	k.wantCalls("long", 1)
	if task := k.task(id); task.Worker != "w1" || task.Version != 1 {
		t.Errorf("worker %q, version %d: the call was made again", task.Worker, task.Version)
	}
}

// A living owner whose epoch is not the row's any more has lost the partition without being told. It finds out by its first
// refused place, begins anew, and takes the partition back.
func TestI4_AnOwnerThatFindsItselfFencedBeginsAnew(t *testing.T) {
	k := newKept(t, 1)
	k.start("w1", k.with)
	k.finished(k.send(0, "c", "one"), tasks.StatusCompleted)
	k.wantStored(0, offsets.Run{From: 0, To: 1})
	s := k.stored(0)[0]
	if _, err := k.positions.Acquire(t.Context(), "somebody", []offsets.Begin{
		{Group: group, Topic: topic, TopicID: s.TopicID, Partition: 0, End: 1 << 40}}); err != nil {
		t.Fatal(err)
	}
	k.finished(k.send(0, "c", "two"), tasks.StatusCompleted)
	k.finished(k.send(0, "c", "three"), tasks.StatusCompleted)
	k.wantStored(0, offsets.Run{From: 0, To: 3})
	if epoch := k.stored(0)[0].Epoch; epoch != 3 {
		t.Errorf("epoch %d, want the worker's third", epoch)
	}
	eventually(t, "committed", func() bool { return k.committed(0) == 3 })
	for _, content := range []string{"one", "two", "three"} {
		k.wantCalls(content, 1)
	}
}

func counter(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
