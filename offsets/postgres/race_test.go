package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/offsets"
)

// Mutants of the statements: how they must not be written. The tests below accept the package's own form and see through
// these, so that they are known to be able to fail.
var mutants = []struct {
	name   string
	mutate func(sql string) string
}{
	{"the package's own", func(sql string) string { return sql }},
	{"a bare join, without the row's lock", func(sql string) string {
		return strings.ReplaceAll(sql, "for update of p", "")
	}},
	{"older epochs are as good", func(sql string) string {
		return strings.ReplaceAll(sql, "o.owner_epoch = i.epoch", "i.epoch <= o.owner_epoch")
	}},
}

// TestI4_AfterTheLockThenTheEpoch lets the old owner store while a new one acquires: its statement has begun, and waits for
// the row, when the new epoch is committed.
func TestI4_AfterTheLockThenTheEpoch(t *testing.T) {
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			k := newKit(t)
			old := k.acquire("old", begin(topicA, 0, 100))[0]
			tx := k.hold()
			var stored int64
			var g errgroup.Group
			g.Go(func() error {
				tag, err := k.pool.Exec(context.Background(), m.mutate(settleSQL), []string{group}, [][16]byte{topicA}, []int32{0},
					[]int64{old.Epoch}, []int64{5}, []int64{6})
				stored = tag.RowsAffected()
				return err
			})
			k.blocked(1)
			// What Acquire does, in the transaction that holds the row.
			if _, err := tx.Exec(context.Background(), `update partition_positions set owner_epoch = owner_epoch + 1`); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			if refused := stored == 0; refused != (i == 0) {
				t.Fatalf("the old owner's place was refused: %t", refused)
			}
			if i == 0 {
				k.want(topicA, 0, old.Epoch+1)
			}
		})
	}
}

// TestI4_AnOwnerThatWaitedIsRefused is the same by the methods alone: the new owner's Acquire waits for the row before the
// old owner's Settle does, and so gets it first.
func TestI4_AnOwnerThatWaitedIsRefused(t *testing.T) {
	k := newKit(t)
	old := k.acquire("old", begin(topicA, 0, 100))[0]
	tx := k.hold()
	var young []offsets.Begun
	var stored []bool
	var g errgroup.Group
	g.Go(func() (err error) {
		young, err = k.positions.Acquire(context.Background(), "new", []offsets.Begin{begin(topicA, 0, 100)})
		return err
	})
	k.blocked(1)
	g.Go(func() (err error) {
		stored, err = k.positions.Settle(context.Background(), []offsets.Place{place(old.Owner, 5, 6)})
		return err
	})
	k.blocked(2)
	if err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if stored[0] || young[0].Epoch != 2 || len(young[0].Settled) != 0 {
		t.Fatalf("stored by the old owner: %t; the new one's: %+v", stored[0], young[0])
	}
	k.want(topicA, 0, 2)
}

func TestI4_ConcurrentAcquiresGiveDifferentEpochs(t *testing.T) {
	k := newKit(t)
	const workers, partitions = 8, 5
	all := make([][]offsets.Begun, workers)
	var g errgroup.Group
	for w := range workers {
		g.Go(func() (err error) {
			var items []offsets.Begin
			for p := range int32(partitions) {
				if w%2 == 1 {
					p = partitions - 1 - p // in the opposite order, and without a deadlock
				}
				items = append(items, begin(topicA, p, 1000))
			}
			all[w], err = k.positions.Acquire(context.Background(), fmt.Sprint("worker-", w), items)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	seen := make(map[offsets.Owner]bool)
	var places []offsets.Place
	for _, begun := range all {
		for _, b := range begun {
			if seen[b.Owner] {
				t.Fatalf("%+v was given twice", b.Owner)
			}
			seen[b.Owner] = true
			places = append(places, place(b.Owner, b.Epoch*10, b.Epoch*10+1))
		}
	}
	for i, ok := range k.settle(places...) {
		if ok != (places[i].Epoch == workers) {
			t.Errorf("the place of epoch %d was stored: %t", places[i].Epoch, ok)
		}
	}
	for p := range int32(partitions) {
		k.want(topicA, p, workers, run{From: workers * 10, To: workers*10 + 1})
	}
}

// TestSettlesAtOnceLoseNothing has many transactions wait for the same rows, in opposite order: each writes the row anew from
// what the one before left.
func TestSettlesAtOnceLoseNothing(t *testing.T) {
	k := newKit(t)
	const stores, partitions = 40, 3
	var items []offsets.Begin
	for p := range int32(partitions) {
		items = append(items, begin(topicA, p, 1000))
	}
	owned := k.acquire("w", items...)
	next := make(chan int64, stores)
	for n := range int64(stores) {
		next <- n
	}
	close(next)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range next {
				var places []offsets.Place
				for p := range partitions {
					if n%2 == 1 {
						p = partitions - 1 - p
					}
					places = append(places, place(owned[p].Owner, 2*n, 2*n+1))
				}
				if _, err := k.positions.Settle(context.Background(), places); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var want []run
	for n := range int64(stores) {
		want = append(want, run{From: 2 * n, To: 2*n + 1})
	}
	for p := range int32(partitions) {
		k.want(topicA, p, 1, want...)
	}
}
