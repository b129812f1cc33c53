package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/outbox"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

const (
	topic    = "reply-tasks"
	deadline = 30 * time.Second
)

// world is a database and a broker.
type world struct {
	t       testing.TB
	pool    *pgxpool.Pool
	cluster *kfake.Cluster // nil: a real broker
	addrs   []string
	topic   string
}

func newWorld(t testing.TB, opts ...kfake.Opt) *world {
	t.Helper()
	opts = append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(6, topic)}, opts...)
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return &world{t: t, pool: newPool(t), cluster: cluster, addrs: cluster.ListenAddrs(), topic: topic}
}

func newPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func (w *world) config(store outbox.Store) outbox.Config {
	return outbox.Config{
		Store: store, Topic: w.topic,
		Kafka: []kgo.Opt{kgo.SeedBrokers(w.addrs...), kgo.MetadataMinAge(100 * time.Millisecond)},
		// A sweep would find what the reads must find: tests that are about it turn it on.
		SweepEvery: time.Hour, Lease: 2 * time.Second, DrainTimeout: 2 * time.Second,
		Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
	}
}

// running is a dispatcher that runs.
type running struct {
	*outbox.Dispatcher
	stop func()
}

func (w *world) start(config outbox.Config) running {
	w.t.Helper()
	d, err := outbox.New(config)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return running{d, stop}
}

const insertHandoff = `
insert into handoffs (shard, task_id, workspace, conversation, trace_parent, accepted_at, created_at)
values ($1, $2, $3, $4, $5, clock_timestamp(), clock_timestamp())`

// submit stores a handoff and returns its task.
func (w *world) submit(conversation string) uuid.UUID {
	w.t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := w.pool.Exec(w.t.Context(), insertHandoff, tasks.Shard("w", conversation), id, "w", conversation, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// submitIn is submit in a transaction of the caller's.
func (w *world) submitIn(tx pgx.Tx, conversation string) uuid.UUID {
	w.t.Helper()
	// As a submission does: something is written before the handoff.
	if _, err := tx.Exec(w.t.Context(), "select pg_current_xact_id()"); err != nil {
		w.t.Fatal(err)
	}
	id := uuid.Must(uuid.NewV7())
	if _, err := tx.Exec(w.t.Context(), insertHandoff, tasks.Shard("w", conversation), id, "w", conversation, ""); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// fill stores n handoffs, spread over conversations, in one statement.
func (w *world) fill(n, conversations int) []uuid.UUID {
	w.t.Helper()
	ids, shards, names := make([]uuid.UUID, n), make([]int16, n), make([]string, n)
	for i := range n {
		ids[i] = uuid.Must(uuid.NewV7())
		names[i] = fmt.Sprint("c", i%conversations)
		shards[i] = tasks.Shard("w", names[i])
	}
	_, err := w.pool.Exec(w.t.Context(), `
		insert into handoffs (shard, task_id, workspace, conversation, trace_parent, accepted_at, created_at)
		select s, i, 'w', c, '', clock_timestamp(), clock_timestamp()
		from unnest($1::smallint[], $2::uuid[], $3::text[]) with ordinality as u (s, i, c, n) order by n`, shards, ids, names)
	if err != nil {
		w.t.Fatal(err)
	}
	return ids
}

func (w *world) pending() int {
	w.t.Helper()
	var n int
	if err := w.pool.QueryRow(w.t.Context(), "select count(*) from handoffs").Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// emptied waits until every handoff is deleted.
func (w *world) emptied() {
	w.t.Helper()
	w.until("the outbox is empty", func() bool { return w.pending() == 0 })
}

func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	end := time.Now().Add(deadline)
	for !holds() {
		if time.Now().After(end) {
			w.t.Fatalf("not within %v: %s", deadline, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (w *world) await(signal <-chan struct{}) {
	w.t.Helper()
	select {
	case <-signal:
	case <-time.After(deadline):
		w.t.Fatalf("no signal within %v", deadline)
	}
}
