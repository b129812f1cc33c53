package postgres

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func (k *kit) snapshot() tasks.Snapshot {
	k.Helper()
	s, complete, err := k.outbox().Snapshot(k.Context(), 1000)
	if err != nil || !complete {
		k.Fatal(complete, err)
	}
	return s
}

func (k *kit) recover(s tasks.Snapshot) []uuid.UUID {
	k.Helper()
	ids, _, err := k.outbox().Recover(k.Context(), s, 0, uuid.Nil, 1000)
	if err != nil {
		k.Fatal(err)
	}
	return ids
}

// lose takes all handoffs away.
func (k *kit) lose() {
	k.Helper()
	k.exec(k.admin, `delete from handoffs`)
}

// TestI3_ASubmissionUnderWayAtTheSnapshotIsNotRecovered: its row says an earlier time than the snapshot does, and its
// record may come after the ends that are read then.
func TestI3_ASubmissionUnderWayAtTheSnapshotIsNotRecovered(t *testing.T) {
	k := newKit(t)
	model := k.submit(1)[0]
	under := k.connect()
	k.exec(under, `begin`)
	k.exec(under, `update reply_tasks set available_at = available_at - interval '1 hour' where id = $1`, model.TaskID)
	k.lose()
	snapshot := k.snapshot()
	k.exec(under, `commit`)
	if got := k.recover(snapshot); len(got) != 0 {
		t.Errorf("recovered %v by a snapshot that did not see it", got)
	}
	if got := k.recover(k.snapshot()); len(got) != 1 {
		t.Errorf("recovered %v by a snapshot that did", got)
	}
}

// TestATransactionLeftOpenDoesNotHoldUpRecovery is about what a mere horizon of transactions would wait for.
func TestATransactionLeftOpenDoesNotHoldUpRecovery(t *testing.T) {
	k := newKit(t)
	forgotten := k.connect()
	k.exec(forgotten, `begin`)
	k.exec(forgotten, `select pg_current_xact_id()`)
	refs := k.submit(3)
	k.exec(forgotten, `select from reply_tasks where id = $1 for update`, refs[1].TaskID)
	k.lose()
	// The held row costs its own task a wait, and no other.
	want := []uuid.UUID{refs[0].TaskID, refs[2].TaskID}
	slices.SortFunc(want, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	if got := k.recover(k.snapshot()); !slices.Equal(got, want) {
		t.Errorf("recovered %v, want %v", got, want)
	}
}

func TestTwoRecoveriesAtOnceAreOne(t *testing.T) {
	k := newKit(t)
	const n = 300
	k.submit(n)
	for round := range 5 {
		k.lose()
		snapshots := []tasks.Snapshot{k.snapshot(), k.snapshot(), k.snapshot()}
		got := make([][]uuid.UUID, len(snapshots))
		var group sync.WaitGroup
		for i, s := range snapshots {
			group.Go(func() {
				var err error
				if got[i], _, err = k.outbox().Recover(k.Context(), s, 0, uuid.Nil, 1000); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		all := slices.Concat(got...)
		slices.SortFunc(all, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		if len(all) > n || len(slices.Compact(all)) != len(all) {
			t.Fatalf("round %d: %d recoveries, want each task once", round, len(all))
		}
		// What one of them skipped because another one held it is found by the next.
		if rest := k.recover(k.snapshot()); len(rest)+len(all) < n {
			t.Fatalf("round %d: %d and %d recovered of %d", round, len(all), len(rest), n)
		}
	}
}

// TestASnapshotIsComparedOverEpochs gives snapshots whose transaction numbers are beyond 32 bits: a row has the lower
// half of its own.
func TestASnapshotIsComparedOverEpochs(t *testing.T) {
	k := newKit(t)
	k.submit(1)
	k.lose()
	var row int64
	if err := k.admin.QueryRow(t.Context(), `select xmin::text::bigint from reply_tasks`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	const epoch = 1 << 32
	for _, c := range []struct {
		name      string
		next      int64
		underWay  int64
		recovered int
	}{
		{"the row is the last that ended", row + 1, 0, 1},
		{"the row is next", row, 0, 0},
		{"the row was under way", row + 10, row, 0},
		{"another one was", row + 10, row + 3, 1},
		{"one epoch on, after the row", 7*epoch + row + 1, 0, 1},
		{"one epoch on, before the row", 7*epoch + row, 0, 0},
		{"one epoch on, the row was under way", 7*epoch + row + 10, 7*epoch + row, 0},
		{"a database that began", 3, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := k.snapshot()
			if s.Seen = fmt.Sprintf("%d:%d:", c.next, c.next); c.underWay > 0 {
				s.Seen = fmt.Sprintf("%d:%d:%d", c.underWay, c.next, c.underWay)
			}
			var n int
			err := k.admin.QueryRow(t.Context(), `select count(*) from reply_tasks t where`+lostByThen, s.At, s.Seen, time.Duration(0)).Scan(&n)
			if err != nil || n != c.recovered {
				t.Errorf("%d lost, want %d; %v", n, c.recovered, err)
			}
		})
	}
}
