package postgres

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
	"github.com/fencepost/fencepost/tasks/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()) }

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness { return newKit(t).harness() })
}

// kit is a store on a database of its own, reached through a proxy that can lose acknowledgements, and a connection beside.
type kit struct {
	testing.TB
	url   string
	store *Store
	proxy *proxy
	admin *pgx.Conn
}

func newKit(t testing.TB) *kit {
	t.Helper()
	k := &kit{TB: t, url: pgtest.URL(t)}
	u, err := url.Parse(k.url)
	if err != nil {
		t.Fatal(err)
	}
	k.proxy = newProxy(t, u.Host)
	u.Host = k.proxy.address()
	k.store, err = Open(t.Context(), Config{URL: u.String(), MaxConns: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.store.Close)
	k.admin = k.connect()
	return k
}

func (k *kit) connect() *pgx.Conn {
	k.Helper()
	conn, err := pgx.Connect(context.Background(), k.url)
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (k *kit) exec(conn *pgx.Conn, sql string, args ...any) {
	k.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		k.Fatalf("%s: %v", sql, err)
	}
}

func (k *kit) harness() storetest.Harness {
	return storetest.Harness{
		Store: k.store, Outbox: k.outbox(), Live: k.store, Budgets: k.store, Rearmer: k.store, Advance: k.advance, Hold: k.hold, LoseAck: k.proxy.loseAck, Handoffs: k.handoffs, Delayed: k.delayed,
		Own: k.own, Kept: k.kept, Replays: k.replays,
	}
}

func (k *kit) advance(d time.Duration) {
	k.Helper()
	k.exec(k.admin, `update reply_tasks set accepted_at = accepted_at - $1::interval, available_at = available_at - $1::interval,
		deadline = deadline - $1::interval, finished_at = finished_at - $1::interval, lease_until = lease_until - $1::interval`, d)
	k.exec(k.admin, `update submissions set created_at = created_at - $1::interval, expires_at = expires_at - $1::interval`, d)
	k.exec(k.admin, `update task_requests set key_expires_at = key_expires_at - $1::interval`, d)
	k.exec(k.admin, `update api_keys set last_used_at = last_used_at - $1::interval`, d)
	k.exec(k.admin, `update delayed_handoffs set due_at = due_at - $1::interval`, d)
	k.exec(k.admin, `update attempts set started_at = started_at - $1::interval, ended_at = ended_at - $1::interval`, d)
}

func (k *kit) replays(s tasks.Submission) (n int64) {
	k.Helper()
	err := k.admin.QueryRow(context.Background(), `select replays from submissions where workspace = $1 and operation = $2 and key = $3`,
		s.Workspace, s.Operation, s.Key).Scan(&n)
	if err != nil {
		k.Fatal(err)
	}
	return n
}

func (k *kit) hold(task uuid.UUID) func(time.Duration) {
	k.Helper()
	conn := k.connect()
	k.exec(conn, `begin`)
	k.exec(conn, `select from reply_tasks where id = $1 for update`, task)
	return func(d time.Duration) {
		k.Helper()
		k.blocked(1)
		k.exec(conn, `select pg_sleep($1::float8)`, d.Seconds())
		k.exec(conn, `commit`)
	}
}

// blocked waits until n sessions of the test's database wait for a lock.
func (k *kit) blocked(n int) {
	k.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		var waiting int
		err := k.admin.QueryRow(context.Background(), `select count(*) from pg_stat_activity
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

func (k *kit) handoffs() []tasks.Handoff {
	k.Helper()
	rows, err := k.admin.Query(context.Background(), `select shard, id, task_id, workspace, conversation, trace_parent, accepted_at
		from handoffs order by id`)
	if err != nil {
		k.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[tasks.Handoff])
	if err != nil {
		k.Fatal(err)
	}
	return list
}

func (k *kit) delayed() map[uuid.UUID]time.Duration {
	k.Helper()
	rows, err := k.admin.Query(context.Background(), `select task_id, due_at - clock_timestamp() from delayed_handoffs`)
	if err != nil {
		k.Fatal(err)
	}
	due := make(map[uuid.UUID]time.Duration)
	var task uuid.UUID
	var in time.Duration
	if _, err := pgx.ForEachRow(rows, []any{&task, &in}, func() error { due[task] = in; return nil }); err != nil {
		k.Fatal(err)
	}
	return due
}

// submission is a fresh one under a key of its own.
func submission(conversation string) tasks.Submission {
	s := tasks.Submission{
		Workspace: "w", Operation: tasks.OperationMessage, Retention: time.Hour,
		TaskID: uuid.Must(uuid.NewV7()), MessageID: uuid.Must(uuid.NewV7()), Conversation: conversation, Kind: tasks.KindReply,
		Request: tasks.Request{Content: "hello", Model: "model"}, MaxAttempts: 1000, MaxInterruptions: 1000,
		DeadlineAfter: time.Hour, OnAmbiguous: tasks.AmbiguousRetry,
	}
	s.Key = s.TaskID.String()
	s.Fingerprint = s.ComputeFingerprint()
	return s
}

func (k *kit) submit(n int) []tasks.Ref {
	k.Helper()
	items := make([]tasks.Submission, n)
	refs := make([]tasks.Ref, n)
	for i := range items {
		items[i] = submission("c")
		refs[i] = tasks.Ref{TaskID: items[i].TaskID, Workspace: "w"}
	}
	out, err := k.store.Submit(context.Background(), items)
	if err != nil {
		k.Fatal(err)
	}
	for _, o := range out {
		if o.Err != nil {
			k.Fatal(o.Err)
		}
	}
	return refs
}

func claimer(lease time.Duration) tasks.Claimer {
	return tasks.Claimer{Worker: "worker", Provider: "sim", Lease: lease, ParkMax: time.Minute}
}

func (k *kit) claim(lease time.Duration, refs ...tasks.Ref) []tasks.Work {
	k.Helper()
	out, err := k.store.Claim(context.Background(), claimer(lease), refs)
	if err != nil {
		k.Fatal(err)
	}
	works := make([]tasks.Work, len(out))
	for i, c := range out {
		if c.Work == nil {
			k.Fatalf("claim: %+v", c)
		}
		works[i] = *c.Work
	}
	return works
}

func complete(w tasks.Work, text string) tasks.Settlement {
	return tasks.Settlement{
		Assignment: w.Assignment, Outcome: tasks.OutcomeComplete,
		Candidate: tasks.Candidate{ReplyID: uuid.Must(uuid.NewV7()), Text: text, Model: "model", FinishReason: "stop"},
		Call:      tasks.Call{WireRequests: 1, Model: "model"},
	}
}

func count(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (n int) {
	t.Helper()
	if err := pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
