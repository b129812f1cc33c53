package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/plugin/kprom"

	"github.com/fencepost/fencepost/tasks/postgres"
)

func admin(t testing.TB, w *world) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.addrs...), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

func setTopic(t testing.TB, w *world, name, value string) {
	t.Helper()
	responses, err := admin(t, w).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, w.topic)
	if err == nil {
		_, err = responses.On(w.topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestI3_ProduceFailuresKeepRowsAndOrder(t *testing.T) {
	w := newWorld(t)
	faults := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.InvalidProducerEpoch, Count: 1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: 3},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: 2})
	defer faults.Remove()
	const conversations, messages = 20, 10
	ids := w.fill(conversations*messages, conversations)
	order := map[string][]uuid.UUID{}
	for i, id := range ids {
		c := fmt.Sprint("c", i%conversations)
		order[c] = append(order[c], id)
	}
	w.start(w.config(postgres.NewOutbox(w.pool)))
	w.reader().distinct(len(ids)).inOrder(order)
	w.emptied()
	if faults.Hits() < 4 {
		t.Errorf("%d requests failed, want more: the test did not test it", faults.Hits())
	}
}

func TestI3_NothingIsDeletedWhileNothingGetsThrough(t *testing.T) {
	w := newWorld(t)
	faults := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	const n = 200
	w.fill(n, 30)
	d := w.start(w.config(postgres.NewOutbox(w.pool)))
	w.until("it says that it cannot work", func() bool { return d.Ready() != nil && faults.Hits() > 0 })
	w.until("it tries again", func() bool { return faults.Hits() > 3 })
	if w.pending() != n {
		t.Errorf("%d handoffs left, want %d", w.pending(), n)
	}
	faults.Remove()
	w.emptied()
	w.until("it says that it works", func() bool { return d.Ready() == nil })
	w.reader().distinct(n)
}

func TestI3_ADeletedTopicLosesNothing(t *testing.T) {
	w := newWorld(t)
	deletedTopic(t, w)
}

// deletedTopic deletes the topic under a dispatcher that runs, and makes it again.
func deletedTopic(t *testing.T, w *world) {
	config := w.config(postgres.NewOutbox(w.pool))
	// Hooks that register metrics for the life of a client must not meet a second client.
	config.Kafka = append(config.Kafka, kgo.WithHooks(kprom.NewMetrics("test", kprom.Registerer(prometheus.NewRegistry()))))
	d := w.start(config)
	w.fill(500, 60)
	w.emptied()
	a := admin(t, w)
	if _, err := a.DeleteTopic(t.Context(), w.topic); err != nil {
		t.Fatal(err)
	}
	const n = 300
	w.fill(n, 60)
	w.until("it says that it cannot work", func() bool { return d.Ready() != nil })
	if w.pending() != n {
		t.Fatalf("%d handoffs left, want %d", w.pending(), n)
	}
	if _, err := a.CreateTopic(t.Context(), 6, 1, nil, w.topic); err != nil {
		t.Fatal(err)
	}
	w.emptied()
	w.reader().distinct(n)
}

func TestAShardIsNotReadPastItsLease(t *testing.T) {
	w := newWorld(t)
	store := w.faulty()
	config := w.config(store)
	config.Lease = 500 * time.Millisecond
	registry := prometheus.NewRegistry()
	config.Registerer = registry
	d := w.start(config)
	w.submit("c")
	w.emptied()
	store.noAcquire.Store(true)
	w.until("it gives up its shards", func() bool { return gauge(t, registry, "fencepost_outbox_shards") == 0 })
	if d.Ready() == nil {
		t.Error("ready without its leases")
	}
	reads := store.reads.Load() // one may have been on its way
	w.fill(100, 10)
	d.Wake()
	queries := store.queries.Load()
	w.until("leases were asked for many times", func() bool { return store.queries.Load() > queries+20 })
	if n := store.reads.Load(); n > reads+2 || w.pending() != 100 {
		t.Errorf("%d reads and %d handoffs left after the lease, want none and 100", n-reads, w.pending())
	}
	store.noAcquire.Store(false)
	w.emptied()
	if err := d.Ready(); err != nil {
		t.Errorf("not ready again: %v", err)
	}
}

func TestShardsAreSharedAndTakenOver(t *testing.T) {
	w := newWorld(t)
	owned := func() (n, owners int) {
		t.Helper()
		err := w.pool.QueryRow(t.Context(), `select count(*), count(distinct owner) from outbox_shards where lease_until > clock_timestamp()`).Scan(&n, &owners)
		if err != nil {
			t.Fatal(err)
		}
		return n, owners
	}
	most := func() (n int) {
		err := w.pool.QueryRow(t.Context(), `select coalesce(max(n), 0) from (select count(*) n from outbox_shards where owner is not null group by owner) x`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	store := w.faulty()
	config := w.config(store)
	config.Lease = time.Second
	crash := w.start(config)
	w.until("the only one has all", func() bool { n, owners := owned(); return n == 16 && owners == 1 })
	config.Store = postgres.NewOutbox(w.pool)
	config.Owner = ""
	second := w.start(config)
	w.start(config)
	w.until("three share them", func() bool { n, owners := owned(); return n == 16 && owners == 3 && most() == 6 })
	store.dead.Store(true)
	crash.stop()
	w.until("two share them after the crash", func() bool { n, owners := owned(); return n == 16 && owners == 2 && most() == 8 })
	second.stop()
	w.until("the last one has all", func() bool { n, owners := owned(); return n == 16 && owners == 1 })
}
