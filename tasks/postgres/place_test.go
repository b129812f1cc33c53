package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/offsets"
	positions "github.com/fencepost/fencepost/offsets/postgres"
	"github.com/fencepost/fencepost/tasks"
)

// own acquires the partition of a place.
func (k *kit) own(p tasks.Place) int64 { return acquire(k, k.store.pool, p) }

func acquire(t testing.TB, pool *pgxpool.Pool, p tasks.Place) int64 {
	t.Helper()
	out, err := positions.New(pool).Acquire(context.Background(), "worker",
		[]offsets.Begin{{Group: p.Group, Topic: "t", TopicID: p.TopicID, Partition: p.Partition, End: 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	return out[0].Epoch
}

// kept are the spans that are stored of the partition of a place.
func (k *kit) kept(p tasks.Place) (spans [][2]int64) {
	k.Helper()
	states, err := positions.New(k.store.pool).Read(context.Background(), p.Group)
	if err != nil {
		k.Fatal(err)
	}
	for _, s := range states {
		if s.TopicID == p.TopicID && s.Partition == p.Partition {
			for _, r := range s.Settled {
				spans = append(spans, [2]int64{r.From, r.To})
			}
		}
	}
	return spans
}

// TestI4_AfterTheLocksThenTheEpoch settles a task for an old owner whose partition is acquired while the statement waits for
// the partition's row. The mutants are how the fence must not be written.
func TestI4_AfterTheLocksThenTheEpoch(t *testing.T) {
	for i, m := range []struct {
		name   string
		mutate func(sql string) string
	}{
		{"the store's own", func(sql string) string { return sql }},
		{"a bare join, without the row's lock", func(sql string) string { return strings.ReplaceAll(sql, "for update of p", "") }},
		{"older epochs are as good", func(sql string) string {
			return strings.Replace(sql, "using (consumer_group, topic_id, partition, owner_epoch)",
				"on (d.consumer_group, d.topic_id, d.partition) = (o.consumer_group, o.topic_id, o.partition) and d.owner_epoch <= o.owner_epoch", 1)
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			k := newKit(t)
			w := k.claim(time.Hour, k.submit(1)...)[0]
			p := tasks.Place{Group: "g", TopicID: w.TaskID, From: 5, To: 6}
			p.Epoch = k.own(p)
			done := complete(w, "reply")
			done.Place = p
			conn := k.connect()
			k.exec(conn, `begin`)
			k.exec(conn, `update partition_positions set owner_epoch = owner_epoch + 1`)
			var answer map[string]any
			var g errgroup.Group
			g.Go(func() error {
				rows, err := k.store.pool.Query(context.Background(), m.mutate(settlePlacedFreeSQL), settlePlacedArgs([]tasks.Settlement{done}, indexes(1))...)
				if err != nil {
					return err
				}
				answer, err = pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
				return err
			})
			k.blocked(1)
			k.exec(conn, `commit`)
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			if stored := len(k.kept(p)) > 0; answer["verdict"] != "accepted" || answer["fenced"] == stored || stored != (i > 0) {
				t.Errorf("%v, and the place was stored: %t", answer, stored)
			}
		})
	}
}

// TestNoDeadlockOfPlaces runs the statement, and the one that stores places alone, on connections that name partitions in
// opposite order. The first is raw: the store would repeat what the server undid, and hide it.
func TestNoDeadlockOfPlaces(t *testing.T) {
	k := newKit(t)
	const n, rounds = 40, 40
	works := k.claim(time.Hour, k.submit(n)...)
	items, places := make([]tasks.Settlement, n), make([]offsets.Place, n)
	for i, w := range works {
		items[i] = complete(w, "reply")
		items[i].Place = tasks.Place{Group: "g", TopicID: works[0].TaskID, Partition: int32(i % 10), From: int64(i), To: int64(i) + 1}
		items[i].Place.Epoch = k.own(items[i].Place)
	}
	for i := range items { // of the last owners
		p := &items[i].Place
		p.Epoch = n / 10
		places[i] = offsets.Place{
			Owner: offsets.Owner{Group: p.Group, TopicID: p.TopicID, Partition: p.Partition, Epoch: p.Epoch}, Run: offsets.Run{From: p.From, To: p.To},
		}
	}
	if _, err := k.store.Settle(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	// From here on each settle is a repeat, which stores its place again.
	var g errgroup.Group
	for c := range 3 {
		conn := k.connect()
		items, places := slices.Clone(items), slices.Clone(places)
		if c > 0 {
			slices.Reverse(items)
			slices.Reverse(places)
		}
		g.Go(func() error {
			for range rounds {
				if c == 2 {
					if ok, err := positions.New(k.store.pool).Settle(t.Context(), places); err != nil || slices.Contains(ok, false) {
						return fmt.Errorf("%v: %w", ok, err)
					}
				} else if _, err := conn.Exec(t.Context(), settlePlacedHeldSQL, settlePlacedArgs(items, indexes(n))...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}
