package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/offsets"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()) }

const group = "g"

var topicA, topicB = [16]byte{1}, [16]byte{2}

// kit is positions in a database of their own, and the pool that reaches it.
type kit struct {
	testing.TB
	positions *Positions
	pool      *pgxpool.Pool
}

func newKit(t testing.TB) *kit {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &kit{TB: t, positions: New(pool), pool: pool}
}

func begin(topic [16]byte, partition int32, end int64, settled ...offsets.Run) offsets.Begin {
	return offsets.Begin{Group: group, Topic: "t", TopicID: topic, Partition: partition, Settled: settled, End: end}
}

func (k *kit) acquire(worker string, items ...offsets.Begin) []offsets.Begun {
	k.Helper()
	out, err := k.positions.Acquire(context.Background(), worker, items)
	if err != nil {
		k.Fatal(err)
	}
	for i, b := range out {
		if b.Group != items[i].Group || b.TopicID != items[i].TopicID || b.Partition != items[i].Partition {
			k.Fatalf("asked for %+v, got %+v", items[i], b)
		}
	}
	return out
}

func (k *kit) settle(places ...offsets.Place) []bool {
	k.Helper()
	out, err := k.positions.Settle(context.Background(), places)
	if err != nil {
		k.Fatal(err)
	}
	return out
}

func place(o offsets.Owner, from, to int64) offsets.Place {
	return offsets.Place{Owner: o, Run: offsets.Run{From: from, To: to}}
}

// want compares what is stored of a partition.
func (k *kit) want(topic [16]byte, partition int32, epoch int64, settled ...offsets.Run) State {
	k.Helper()
	states, err := k.positions.Read(context.Background(), group)
	if err != nil {
		k.Fatal(err)
	}
	i := slices.IndexFunc(states, func(s State) bool { return s.TopicID == topic && s.Partition == partition })
	if i < 0 {
		k.Fatalf("nothing is stored of partition %d of %x: %+v", partition, topic[:1], states)
	}
	if s := states[i]; s.Epoch != epoch || !slices.Equal(s.Settled, settled) {
		k.Fatalf("partition %d of %x: epoch %d, settled %v; want %d, %v", partition, topic[:1], s.Epoch, s.Settled, epoch, settled)
	}
	return states[i]
}

// hold locks the rows of a group on a connection of its own until the transaction is ended.
func (k *kit) hold() pgx.Tx {
	k.Helper()
	tx, err := k.pool.Begin(context.Background())
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	if _, err := tx.Exec(context.Background(), `select from partition_positions for update`); err != nil {
		k.Fatal(err)
	}
	return tx
}

// blocked waits until n sessions of the test's database wait for a lock.
func (k *kit) blocked(n int) {
	k.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		var waiting int
		err := k.pool.QueryRow(context.Background(), `select count(*) from pg_stat_activity
			where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waiting)
		if err != nil {
			k.Fatal(err)
		}
		if waiting >= n {
			return
		}
		if time.Now().After(end) {
			k.Fatalf("%d sessions wait for a lock, want %d", waiting, n)
		}
	}
}
