package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// allShards marks the low end of every shard.
func allShards() []tasks.Mark {
	marks := make([]tasks.Mark, tasks.Shards)
	for i := range marks {
		marks[i].Shard = int16(i)
	}
	return marks
}

func (k *kit) outbox() *Outbox { return NewOutbox(k.store.Pool()) }

func (k *kit) acquire(owner string, lease time.Duration) []int16 {
	k.Helper()
	shards, err := k.outbox().Acquire(context.Background(), owner, lease)
	if err != nil {
		k.Fatal(err)
	}
	return shards
}

func (k *kit) promote(want int) {
	k.Helper()
	n, err := k.outbox().Promote(context.Background(), 100)
	if err != nil || n != want {
		k.Fatalf("promoted %d, %v, want %d", n, err, want)
	}
}

func (k *kit) delay(task uuid.UUID, d time.Duration) {
	k.Helper()
	k.exec(k.admin, `insert into delayed_handoffs values ($1, 'w', clock_timestamp() + $2::interval)`, task, d)
}

func TestAcquireSharesFairly(t *testing.T) {
	k := newKit(t)
	if got := k.acquire("a", time.Minute); len(got) != 16 {
		t.Fatalf("the only one has %v", got)
	}
	if got := k.acquire("b", time.Minute); len(got) != 0 {
		t.Fatalf("b takes %v from a lease that runs", got)
	}
	a := k.acquire("a", time.Minute) // gives up what is beyond its share
	b := k.acquire("b", time.Minute)
	if len(a) != 8 || len(b) != 8 {
		t.Fatalf("shares of %d and %d", len(a), len(b))
	}
	k.acquire("c", time.Minute)
	a, b = k.acquire("a", time.Minute), k.acquire("b", time.Minute)
	c := k.acquire("c", time.Minute)
	if len(a) != 6 || len(b) != 6 || len(c) != 4 {
		t.Fatalf("shares of %d, %d and %d", len(a), len(b), len(c))
	}
	all := slices.Concat(a, b, c)
	slices.Sort(all)
	if len(slices.Compact(all)) != 16 {
		t.Errorf("%v, %v and %v do not make up all shards once", a, b, c)
	}
}

func TestAcquireTakesOverWhenALeaseHasEnded(t *testing.T) {
	k := newKit(t)
	k.acquire("crashed", time.Minute)
	k.exec(k.admin, `update dispatchers set lease_until = clock_timestamp()`)
	if got := k.acquire("b", time.Minute); len(got) != 0 {
		t.Fatalf("takes %v although the leases of the shards run", got)
	}
	k.exec(k.admin, `update outbox_shards set lease_until = clock_timestamp()`)
	if got := k.acquire("b", time.Minute); len(got) != 16 {
		t.Fatalf("takes over %v", got)
	}
	if got := k.acquire("crashed", time.Minute); len(got) != 0 {
		t.Errorf("who comes back has %v", got)
	}
}

func TestAcquireByManyAtOnceGivesAShardToOne(t *testing.T) {
	k := newKit(t)
	for range 5 {
		k.exec(k.admin, `delete from dispatchers`)
		k.exec(k.admin, `update outbox_shards set owner = null, lease_until = null`)
		got := make([][]int16, 8)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i] = k.acquire(fmt.Sprint(i), time.Minute) })
		}
		wg.Wait()
		all := slices.Concat(got...)
		slices.Sort(all)
		if n := len(all); len(slices.Compact(all)) != n {
			t.Fatalf("a shard was given twice: %v", got)
		}
	}
}

func TestResignFreesTheShards(t *testing.T) {
	k := newKit(t)
	k.acquire("a", time.Hour)
	if err := k.outbox().Resign(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := k.acquire("b", time.Hour); len(got) != 16 {
		t.Errorf("after the resignation b has %v", got)
	}
}

func TestAcquireForgetsLongDeadDispatchers(t *testing.T) {
	k := newKit(t)
	k.exec(k.admin, `insert into dispatchers values ('old', clock_timestamp() - interval '2 hours'), ('young', clock_timestamp() - interval '1 second')`)
	k.acquire("a", time.Minute)
	rows, _ := k.admin.Query(t.Context(), `select owner from dispatchers order by owner`)
	if got, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || !slices.Equal(got, []string{"a", "young"}) {
		t.Errorf("registered: %v, %v", got, err)
	}
}

func TestReadIsByShardAndInOrder(t *testing.T) {
	k := newKit(t)
	o := k.outbox()
	for i := range 60 {
		s := submission(fmt.Sprint("c", i%20))
		s.TraceParent = fmt.Sprint("trace", i)
		if _, err := k.store.Submit(t.Context(), []tasks.Submission{s}); err != nil {
			t.Fatal(err)
		}
	}
	all := k.handoffs()
	slices.SortStableFunc(all, func(a, b tasks.Handoff) int { return int(a.Shard) - int(b.Shard) })
	got, _, err := o.Read(t.Context(), allShards(), 100)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 60 {
		t.Fatalf("%d rows", len(got))
	}
	for i := range got {
		if !got[i].AcceptedAt.Equal(all[i].AcceptedAt) {
			t.Fatalf("row %d accepted at %v, want %v", i, got[i].AcceptedAt, all[i].AcceptedAt)
		}
		got[i].AcceptedAt, all[i].AcceptedAt = time.Time{}, time.Time{}
		if got[i] != all[i] {
			t.Fatalf("row %d is %+v, want %+v", i, got[i], all[i])
		}
	}
	shard := got[0].Shard
	rest, _, err := o.Read(t.Context(), []tasks.Mark{{Shard: shard, After: got[0].ID}}, 1)
	if err != nil || len(rest) != 1 || rest[0].ID != got[1].ID {
		t.Errorf("after the first, one of shard %d: %+v, %v, want id %d", shard, rest, err, got[1].ID)
	}
	if err := o.Delete(t.Context(), got[:30]); err != nil {
		t.Fatal(err)
	}
	if err := o.Delete(t.Context(), got[:31]); err != nil {
		t.Fatalf("rows that are gone already: %v", err)
	}
	if n := len(k.handoffs()); n != 29 {
		t.Errorf("%d rows left, want 29", n)
	}
}

func TestI3_TheHorizonTellsWhenNoRowCanBeLateAnyMore(t *testing.T) {
	k := newKit(t)
	o := k.outbox()
	read := func() (int, tasks.Horizon) {
		t.Helper()
		rows, horizon, err := o.Read(t.Context(), allShards(), 100)
		if err != nil {
			t.Fatal(err)
		}
		return len(rows), horizon
	}
	slow := k.connect()
	k.exec(slow, `begin`)
	k.exec(slow, `insert into dispatchers values ('something written first', clock_timestamp())`)
	k.exec(slow, `insert into handoffs (shard, task_id, workspace, conversation, trace_parent, accepted_at, created_at)
		values (0, gen_random_uuid(), 'w', 'c', '', now(), now())`) // has drawn its id
	k.submit(1)
	n, first := read()
	if n != 1 || first.Running >= first.Next {
		t.Fatalf("%d rows, %+v", n, first)
	}
	k.submit(1)
	if _, later := read(); later.Running >= first.Next {
		t.Fatalf("%+v says that all of before %+v is over, and one transaction is not", later, first)
	}
	k.exec(slow, `commit`)
	// Transactions of other databases on the server count too.
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		n, later := read()
		if n != 3 {
			t.Fatalf("%d rows, want 3", n)
		}
		if later.Running >= first.Next {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v: the transactions of before %+v are over", later, first)
		}
	}
}

func TestPromoteMovesWhatIsDue(t *testing.T) {
	k := newKit(t)
	s := submission("room 7")
	s.TraceParent = "trace"
	if _, err := k.store.Submit(t.Context(), []tasks.Submission{s}); err != nil {
		t.Fatal(err)
	}
	k.exec(k.admin, `delete from handoffs`)
	k.delay(s.TaskID, time.Hour)
	k.promote(0)
	if n := len(k.handoffs()); n != 0 || len(k.delayed()) != 1 {
		t.Fatalf("%d handoffs before their time", n)
	}
	k.advance(2 * time.Hour)
	k.promote(1)
	got := k.handoffs()
	if len(got) != 1 || len(k.delayed()) != 0 {
		t.Fatalf("handoffs %+v, delayed %v", got, k.delayed())
	}
	want := tasks.Handoff{Shard: tasks.Shard("w", "room 7"), TaskID: s.TaskID, Workspace: "w", Conversation: "room 7", TraceParent: "trace"}
	if got[0].AcceptedAt.IsZero() {
		t.Error("the acceptance is missing")
	}
	got[0].ID, got[0].AcceptedAt = 0, time.Time{}
	if got[0] != want {
		t.Errorf("%+v, want %+v", got[0], want)
	}
	k.promote(0)
}

func TestPromoteDropsWhatNeedsNoRecord(t *testing.T) {
	k := newKit(t)
	refs := k.submit(2)
	k.exec(k.admin, `delete from handoffs`)
	if _, _, err := k.store.Cancel(t.Context(), "w", refs[0].TaskID); err != nil {
		t.Fatal(err)
	}
	k.delay(refs[0].TaskID, -time.Second)
	k.delay(refs[1].TaskID, -time.Second)
	k.delay(uuid.New(), -time.Second) // of no task
	k.promote(1)
	if got := k.handoffs(); len(got) != 1 || got[0].TaskID != refs[1].TaskID || len(k.delayed()) != 0 {
		t.Errorf("handoffs %+v, delayed %v", got, k.delayed())
	}
}

func TestPromoteByManyAtOnceMovesEachOnce(t *testing.T) {
	k := newKit(t)
	const n = 300
	refs := k.submit(n)
	k.exec(k.admin, `delete from handoffs`)
	for _, r := range refs {
		k.delay(r.TaskID, -time.Second)
	}
	moved := make([]int, 4)
	var wg sync.WaitGroup
	for i := range moved {
		wg.Go(func() {
			for len(k.storeDelayed()) > 0 {
				m, err := k.outbox().Promote(context.Background(), 40)
				if err != nil {
					t.Error(err)
					return
				}
				moved[i] += m
			}
		})
	}
	wg.Wait()
	if sum := moved[0] + moved[1] + moved[2] + moved[3]; sum != n || len(k.handoffs()) != n {
		t.Errorf("moved %v, %d handoffs, want %d", moved, len(k.handoffs()), n)
	}
}

// storeDelayed is delayed for many goroutines at once.
func (k *kit) storeDelayed() []uuid.UUID {
	k.Helper()
	rows, _ := k.store.Pool().Query(context.Background(), `select task_id from delayed_handoffs`)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		k.Error(err)
	}
	return ids
}

func TestPending(t *testing.T) {
	k := newKit(t)
	if n, oldest, err := k.outbox().Pending(t.Context()); n != 0 || oldest != 0 || err != nil {
		t.Errorf("empty: %d, %v, %v", n, oldest, err)
	}
	k.exec(k.admin, `insert into handoffs (shard, task_id, workspace, conversation, trace_parent, accepted_at, created_at)
		select i % 16, gen_random_uuid(), 'w', 'c', '', now(), now() - interval '90 seconds' * (i % 16) / 15 from generate_series(1, 12000) i`)
	n, oldest, err := k.outbox().Pending(t.Context())
	if n != pendingBound || oldest < 90*time.Second || oldest > 10*time.Minute || err != nil {
		t.Errorf("%d, %v, %v, want the bound and 90 s", n, oldest, err)
	}
}
