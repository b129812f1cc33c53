package outbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/e2e/broker"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/outbox"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// eachBroker runs a test in a world of its own on the in-process broker and on a real one.
func eachBroker(t *testing.T, test func(t *testing.T, w *recovering)) {
	t.Run("kfake", func(t *testing.T) { test(t, newRecovering(newWorld(t))) })
	t.Run("kafka", func(t *testing.T) { test(t, newRecovering(realWorld(t, broker.Shared(t), 6))) })
}

// recovering is a world with tasks, whose dispatchers recover, and a group of workers that the test plays.
type recovering struct {
	*world
	group   string
	store   *postgres.Store
	looks   atomic.Int64 // at the group's positions
	hold    atomic.Pointer[hold]
	metrics []*prometheus.Registry // of the dispatchers
}

func newRecovering(w *world) *recovering {
	w.t.Helper()
	return &recovering{world: w, group: "group-" + w.topic, store: postgres.NewStore(w.pool)}
}

// OnBrokerWrite counts looks.
func (w *recovering) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if kmsg.Key(key) == kmsg.OffsetFetch && err == nil {
		w.looks.Add(1)
	}
}

// held is a store whose next Recover can be held before it begins.
type held struct {
	outbox.Store
	w *recovering
}

func (l held) Recover(ctx context.Context, s tasks.Snapshot, due time.Duration, after uuid.UUID, limit int) ([]uuid.UUID, uuid.UUID, error) {
	if h := l.w.hold.Swap(nil); h != nil {
		close(h.looked)
		select {
		case <-h.goOn:
		case <-ctx.Done():
		}
	}
	return l.Store.Recover(ctx, s, due, after, limit)
}

// dispatch starts a dispatcher that looks for lost tasks often.
func (w *recovering) dispatch() running {
	w.t.Helper()
	config := w.config(held{postgres.NewOutbox(w.pool), w})
	config.Group, config.RecoverEvery, config.RecoverMargin = w.group, 20*time.Millisecond, time.Nanosecond
	registry := prometheus.NewRegistry()
	config.Registerer = registry
	config.Kafka = append(config.Kafka, kgo.WithHooks(w))
	w.metrics = append(w.metrics, registry)
	return w.start(config)
}

// published submits n tasks and has them published before any dispatcher looks for lost ones, so that the first
// snapshot is of all of them.
func (w *recovering) published(n int) []uuid.UUID {
	w.t.Helper()
	ids := w.tasks(n)
	d := w.start(w.config(postgres.NewOutbox(w.pool)))
	w.emptied()
	d.stop()
	return ids
}

// tasks submits n tasks.
func (w *recovering) tasks(n int) []uuid.UUID {
	w.t.Helper()
	ids := make([]uuid.UUID, n)
	items := make([]tasks.Submission, n)
	for i := range items {
		ids[i] = uuid.Must(uuid.NewV7())
		items[i] = tasks.Submission{
			Workspace: "w", Operation: tasks.OperationMessage, Key: ids[i].String(), Retention: time.Hour,
			TaskID: ids[i], MessageID: ids[i], Conversation: fmt.Sprint("c", i), Kind: tasks.KindReply,
			Request: tasks.Request{Content: ids[i].String(), Model: "m"}, MaxAttempts: 3, MaxInterruptions: 3,
			DeadlineAfter: time.Hour, OnAmbiguous: tasks.AmbiguousRetry,
		}
	}
	for i := 0; i < n; i += 200 {
		out, err := w.store.Submit(w.t.Context(), items[i:min(n, i+200)])
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range out {
			if o.Err != nil {
				w.t.Fatal(o.Err)
			}
		}
	}
	return ids
}

// claim makes a task running under a lease.
func (w *recovering) claim(id uuid.UUID, lease time.Duration) tasks.Assignment {
	w.t.Helper()
	out, err := w.store.Claim(w.t.Context(), tasks.Claimer{Worker: "w", Lease: lease, ParkMax: time.Minute, Provider: "p"}, []tasks.Ref{{TaskID: id, Workspace: "w"}})
	if err != nil || out[0].Decision != tasks.DecisionClaimed {
		w.t.Fatal(out, err)
	}
	return out[0].Work.Assignment
}

// complete ends tasks, as workers do.
func (w *recovering) complete(ids ...uuid.UUID) {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), `update reply_tasks set status = 'completed', finished_at = clock_timestamp() where id = any($1)`, ids)
	if err != nil {
		w.t.Fatal(err)
	}
}

// commit commits what is told of each partition's start and end.
func (w *recovering) commit(position func(partition int32, start, end int64) int64) {
	w.t.Helper()
	a := admin(w.t, w.world)
	starts, err := a.ListStartOffsets(w.t.Context(), w.topic)
	if err != nil {
		w.t.Fatal(err)
	}
	ends, err := a.ListEndOffsets(w.t.Context(), w.topic)
	if err != nil {
		w.t.Fatal(err)
	}
	offsets := kadm.Offsets{}
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(w.topic, end.Partition)
		offsets.AddOffset(w.topic, end.Partition, position(end.Partition, start.Offset, end.Offset), -1)
	})
	if err := a.CommitAllOffsets(w.t.Context(), w.group, offsets); err != nil {
		w.t.Fatal(err)
	}
}

// worker reads records of the group and settles them when the test says so.
type worker struct {
	w      *recovering
	client *kgo.Client
	read   map[uuid.UUID]int
}

func (w *recovering) worker() *worker {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.addrs...), kgo.ConsumeTopics(w.topic), kgo.ConsumerGroup(w.group), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return &worker{w: w, client: client, read: map[uuid.UUID]int{}}
}

// settle reads up to n records, completes their tasks and then commits.
func (k *worker) settle(n int) {
	k.w.t.Helper()
	ctx, cancel := context.WithTimeout(k.w.t.Context(), time.Second)
	defer cancel()
	records := k.client.PollRecords(ctx, n).Records()
	r := &reader{w: k.w.world, seen: map[uuid.UUID]bool{}}
	for _, rec := range records {
		r.add(rec)
	}
	for _, id := range r.tasks {
		k.read[id]++
	}
	k.w.complete(r.tasks...)
	if err := k.client.CommitRecords(k.w.t.Context(), records...); err != nil {
		k.w.t.Fatal(err)
	}
}

// recovered is how many tasks the dispatchers say they recovered.
func (w *recovering) recovered() int {
	w.t.Helper()
	n := 0.
	for _, r := range w.metrics {
		families, err := r.Gather()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "fencepost_outbox_recovered_total" {
				n += f.Metric[0].GetCounter().GetValue()
			}
		}
	}
	return int(n)
}

// never wants n tasks recovered, however often dispatchers look.
func (w *recovering) never(n int) {
	w.t.Helper()
	looks := w.looks.Load()
	w.until("they have looked often", func() bool { return w.looks.Load() > looks+10 })
	if got := w.recovered(); got != n {
		w.t.Errorf("%d tasks recovered, want %d", got, n)
	}
}

// recoveredAll waits until n tasks are recovered, and wants no more.
func (w *recovering) recoveredAll(n int) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d tasks are recovered", n), func() bool { return w.recovered() >= n })
	w.never(n)
}

// retry ends an attempt; the task is due at once.
func (w *recovering) retry(a tasks.Assignment) {
	w.t.Helper()
	out, err := w.store.Settle(w.t.Context(), []tasks.Settlement{{Assignment: a, Outcome: tasks.OutcomeRetry, Failure: tasks.Failure{Class: "overloaded"}}})
	if err != nil || out[0].Verdict != tasks.VerdictAccepted {
		w.t.Fatal(out, err)
	}
}

// partitionOf is where a task's record is.
func (w *recovering) partitionOf(id uuid.UUID) int32 {
	w.t.Helper()
	r := w.reader()
	w.until("its record is found", func() bool { r.poll(); return r.seen[id] })
	return r.records[slices.Index(r.tasks, id)].Partition // each was published once
}
