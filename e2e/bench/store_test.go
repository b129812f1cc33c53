package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
)

const (
	connections = 4
	batch       = 200
)

// The same rows written by plain batched statements, which judge nothing: no lock before the clock, no version or
// lease, no second thoughts about a repeat. What the store takes longer is the price of its promises.
const (
	rawClaimSQL = `
with moved as (
    update reply_tasks t set status = 'running', assignment_version = assignment_version + 1, attempts = attempts + 1,
        lease_until = now() + interval '20 seconds', worker = 'raw'
    where t.id = any($1::uuid[])
    returning t.id, t.message_id, t.assignment_version, t.attempts
), ledger as (
    insert into attempts (task_id, assignment_version, attempt, worker, provider, model, started_at)
    select id, assignment_version, attempts, 'raw', 'raw', 'sim', now() from moved
)
select v.id, v.assignment_version, (select m.content from messages m where m.id = v.message_id),
    (select r.model from task_requests r where r.task_id = v.id), (select r.system from task_requests r where r.task_id = v.id)
from moved v`
	// any() and no join: what is joined with a table that was empty when the plan was made is read once for each row.
	rawSettleSQL = `
with moved as (
    update reply_tasks set status = 'completed', lease_until = null, finished_at = now(), reply_id = id where id = any($1::uuid[])
), saved as (
    insert into replies (task_id, id, message_id, text, model, finish_reason, attempt, saved_at)
    select i.task_id, i.reply_id, i.task_id, i.text, 'sim', 'stop', 1, now()
    from unnest($1::uuid[], $2::uuid[], $3::text[]) i (task_id, reply_id, text)
)
update attempts set ended_at = now(), outcome = 'accepted', wire_requests = 1, input_tokens = 150, output_tokens = 250
where task_id = any($1::uuid[]) and assignment_version = 1`
)

// BenchmarkStore measures claim and settle of a backlog, in batches of 200 on four connections, through the store and
// by plain statements that write the same rows.
//
//	go test -run '^$' -bench Store -benchtime 100000x -count 5
func BenchmarkStore(b *testing.B) {
	b.Run("raw", func(b *testing.B) {
		store, all := backlog(b)
		config := store.Pool().Config()
		config.MaxConns = connections
		pool, err := pgxpool.NewWithConfig(b.Context(), config)
		if err != nil {
			b.Fatal(err)
		}
		defer pool.Close()
		measure(b, all, func(ctx context.Context, part []tasks.Submission) error {
			ids, replies, texts := make([]pgtype.UUID, len(part)), make([]pgtype.UUID, len(part)), make([]string, len(part))
			for i := range part {
				ids[i] = pgtype.UUID{Bytes: part[i].TaskID, Valid: true}
				replies[i] = pgtype.UUID{Bytes: uuid.Must(uuid.NewV7()), Valid: true}
				texts[i] = text(answered)
			}
			rows, err := pool.Query(ctx, rawClaimSQL, ids)
			if err != nil {
				return err
			}
			n := 0
			for rows.Next() {
				var id [16]byte
				var version int64
				var content, model, system string
				if err := rows.Scan(&id, &version, &content, &model, &system); err != nil {
					return err
				}
				n++
			}
			if rows.Err() != nil || n != len(part) {
				return fmt.Errorf("claimed %d of %d: %w", n, len(part), rows.Err())
			}
			_, err = pool.Exec(ctx, rawSettleSQL, ids, replies, texts)
			return err
		})
	})
	b.Run("store", func(b *testing.B) {
		store, all := backlog(b)
		by := tasks.Claimer{Worker: "bench", Lease: 20e9, ParkMax: 60e9, Provider: "bench"}
		measure(b, all, func(ctx context.Context, part []tasks.Submission) error {
			refs := make([]tasks.Ref, len(part))
			for i := range part {
				refs[i] = tasks.Ref{TaskID: part[i].TaskID, Workspace: workspace}
			}
			claimed, err := store.Claim(ctx, by, refs)
			if err != nil {
				return err
			}
			items := make([]tasks.Settlement, len(part))
			in, out := int64(150), int64(250)
			for i, c := range claimed {
				items[i] = tasks.Settlement{Assignment: c.Work.Assignment, Outcome: tasks.OutcomeComplete,
					Candidate: tasks.Candidate{ReplyID: uuid.Must(uuid.NewV7()), Text: text(answered), Model: "sim", FinishReason: "stop"},
					Call:      tasks.Call{WireRequests: 1, InputTokens: &in, OutputTokens: &out}}
			}
			settled, err := store.Settle(ctx, items)
			if err != nil {
				return err
			}
			for _, s := range settled {
				if s.Verdict != tasks.VerdictAccepted {
					return fmt.Errorf("verdict %s", s.Verdict)
				}
			}
			return nil
		})
	})
}

func backlog(b *testing.B) (*postgres.Store, []tasks.Submission) {
	store := openStore(b, database(b))
	return store, fill(b, store, b.N, 1000)
}

// measure works off all in batches on as many goroutines as there are connections.
func measure(b *testing.B, all []tasks.Submission, work func(context.Context, []tasks.Submission) error) {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(b.Context())
	b.ResetTimer()
	for range connections {
		g.Go(func() error {
			for {
				from := int(next.Add(batch)) - batch
				if from >= len(all) {
					return nil
				}
				if err := work(ctx, all[from:min(from+batch, len(all))]); err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
