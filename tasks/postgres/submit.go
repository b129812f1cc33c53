package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/tasks"
)

const (
	submitLockWait  = 2 * time.Second        // for another submission of the same key that has not committed
	sharedLockWait  = 100 * time.Millisecond // the same while other items wait along; then the item is isolated
	submitRounds    = 3
	rollbackTimeout = 5 * time.Second
)

// Submit implements tasks.Store. Keys are bound first, in one order for every caller, so that two batches cannot
// deadlock; then what the new ones stand for is stored, in the order of the items, in the same transaction (I3). What a
// key is bound to that was taken is read by a statement of its own: the one that waited for the winner does not see it.
func (s *Store) Submit(ctx context.Context, items []tasks.Submission) ([]tasks.Submitted, error) {
	out := make([]tasks.Submitted, len(items))
	open := make([]int, 0, len(items))
	for i := range items {
		if err := items[i].Check(); err != nil {
			out[i].Err = err
			continue
		}
		open = append(open, i)
	}
	for round := 0; len(open) > 0 && round < submitRounds; round++ {
		taken, err := s.submit(ctx, items, open, out)
		if err == nil {
			open, err = s.bound(ctx, items, taken, out)
		}
		if err != nil {
			return nil, s.wrap(ctx, "submit", err)
		}
	}
	for _, i := range open {
		out[i].Err = tasks.ErrInProgress
	}
	return out, nil
}

// submit stores those of the items whose key is free, and returns the others.
func (s *Store) submit(ctx context.Context, items []tasks.Submission, open []int, out []tasks.Submitted) (taken []int, err error) {
	do := func(part []int) error {
		lost, err := s.store(ctx, items, part, out)
		var held *accountsHeld
		if errors.As(err, &held) { // costs the items of other workspaces a wait, and these their submission
			if part = held.refuse(items, part, out); len(part) == 0 {
				return nil
			}
			lost, err = s.store(ctx, items, part, out)
		}
		if err == nil {
			taken = append(taken, lost...)
		}
		return err
	}
	ofOne := func(err error) bool { return badData(err) || lockTimeout(err) || errors.Is(err, errNoMessage) }
	alone := func(item int, err error) error {
		out[item] = tasks.Submitted{Err: invalid(err)}
		if lockTimeout(err) {
			out[item].Err = tasks.ErrInProgress
		}
		return nil
	}
	for _, part := range parts(open, func(item int) int { return submissionSize(&items[item]) }) {
		if err := isolate(ctx, part, do, ofOne, alone); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

const bindSQL = `
insert into submissions (workspace, operation, key, fingerprint, task_id, created_at, expires_at)
select i.workspace, i.operation, i.key, i.fingerprint, i.task_id, statement_timestamp(),
    statement_timestamp() + i.retention * interval '1 microsecond'
from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::uuid[], $6::bigint[])
    as i (workspace, operation, key, fingerprint, task_id, retention)
on conflict do nothing
returning workspace, operation, key, expires_at`

// messages.seq and handoffs.id are drawn in the order of the items: a conversation is read and published in it.
const storeSQL = `
with input as materialized (
    select * from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::uuid[], $7::text[], $8::text[],
            $9::text[], $10::text[], $11::text[], $12::text[], $13::float8[], $14::integer[], $15::integer[], $16::integer[],
            $17::bigint[], $18::text[], $19::text[], $20::text[], $21::smallint[], $22::text[],
            $23::bigint[], $24::date[], $25::text[], $26::text[], $27::bigint[])
        with ordinality as i (task_id, workspace, conversation, message_id, kind, regenerates, content, model, system,
            prompt_template, document_id, document_version, temperature, max_output_tokens, max_attempts, max_interruptions,
            deadline_after, on_ambiguous, metadata, trace_parent, shard, prompt_template_version,
            reserved_picousd, reserved_on, chat_messages, chat_params, retention, n)
), said as (
    insert into messages (id, workspace, conversation, content, created_at)
    select i.message_id, i.workspace, i.conversation, i.content, statement_timestamp()
    from input i where i.kind = 'reply' order by i.n
), asked as (
    insert into task_requests (task_id, model, system, prompt_template, document_id, document_version, temperature,
        max_output_tokens, metadata, trace_parent, prompt_template_version, chat_messages, chat_params,
        key_expires_at)
    select i.task_id, i.model, i.system, i.prompt_template, i.document_id, i.document_version, i.temperature,
        i.max_output_tokens, i.metadata::jsonb, i.trace_parent, i.prompt_template_version, i.chat_messages, i.chat_params,
        statement_timestamp() + i.retention * interval '1 microsecond'
    from input i
), handed as (
    insert into handoffs (shard, task_id, workspace, conversation, trace_parent, accepted_at, created_at)
    select i.shard, i.task_id, i.workspace, i.conversation, i.trace_parent, statement_timestamp(), statement_timestamp()
    from input i order by i.n
)
insert into reply_tasks (id, workspace, conversation, message_id, kind, regenerates, status, max_attempts, max_interruptions,
    on_ambiguous, accepted_at, available_at, deadline, reserved_picousd, reserved_on)
select i.task_id, i.workspace, i.conversation, i.message_id, i.kind, i.regenerates, 'queued', i.max_attempts,
    i.max_interruptions, i.on_ambiguous, statement_timestamp(), statement_timestamp(),
    statement_timestamp() + i.deadline_after * interval '1 microsecond', i.reserved_picousd, i.reserved_on
from input i
returning id, accepted_at, deadline`

// What is found stays until the transaction has ended: a sweep deletes no message that somebody holds.
const messagesSQL = `
select count(*) from (
    select from unnest($1::uuid[], $2::text[], $3::text[]) as i (message_id, workspace, conversation)
    join messages m on m.id = i.message_id and m.workspace = i.workspace and m.conversation = i.conversation
    order by m.id for key share of m
) x`

var errNoMessage = errors.New("no such message in the conversation")

// store is the transaction: two round trips when nothing has to be looked up and no budget judged.
func (s *Store) store(ctx context.Context, items []tasks.Submission, part []int, out []tasks.Submitted) (taken []int, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release(ctx, conn)
	first, taken := firstOfKeys(items, part)
	won, expires, caps, err := bind(ctx, conn, items, first)
	if err != nil {
		return nil, err
	}
	slices.Sort(won)
	for _, i := range first {
		if _, mine := slices.BinarySearch(won, i); !mine {
			taken = append(taken, i)
		}
	}
	if len(won) == 0 {
		return taken, nil // release rolls back what is nothing
	}
	if err := regenerable(ctx, conn, items, won); err != nil {
		return nil, err
	}
	won, budgets, err := reserve(ctx, conn, items, won, caps, out)
	if err != nil || len(won) == 0 {
		return taken, err // release rolls back the keys of what was refused
	}
	var stored []tasks.Submitted
	var batch pgx.Batch
	budgets.queue(&batch, items)
	batch.Queue(storeSQL, submitArgs(items, won, &budgets)...).Query(func(rows pgx.Rows) error {
		stored, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r tasks.Submitted, err error) {
			err = row.Scan(&r.TaskID, &r.AcceptedAt, &r.Deadline)
			return r, err
		})
		return err
	})
	batch.Queue(`commit`)
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, err
	}
	if len(stored) != len(won) {
		return nil, fmt.Errorf("%d of %d submissions were stored", len(stored), len(won))
	}
	of := make(map[uuid.UUID]int, len(won))
	for _, i := range won {
		of[items[i].TaskID] = i
	}
	for _, r := range stored {
		i := of[r.TaskID]
		out[i] = tasks.Submitted{TaskID: r.TaskID, AcceptedAt: r.AcceptedAt.UTC(), Deadline: r.Deadline.UTC(), ExpiresAt: expires[i]}
	}
	return taken, nil
}

// release gives the connection back, outside of any transaction. The pool drops one that is still inside.
func release(ctx context.Context, conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() && conn.Conn().PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, _ = conn.Exec(ctx, `rollback`)
	}
	conn.Release()
}

// firstOfKeys sorts by key, in the order of a caller's items where keys are equal, and parts the first of each key from
// the rest, who find it taken.
func firstOfKeys(items []tasks.Submission, part []int) (first, rest []int) {
	sorted := slices.Clone(part)
	order := func(a, b int) int {
		x, y := &items[a], &items[b]
		return cmp.Or(cmp.Compare(x.Workspace, y.Workspace), cmp.Compare(x.Operation, y.Operation), cmp.Compare(x.Key, y.Key))
	}
	slices.SortStableFunc(sorted, order)
	for n, i := range sorted {
		if n > 0 && order(sorted[n-1], i) == 0 {
			rest = append(rest, i)
		} else {
			first = append(first, i)
		}
	}
	return first, rest
}

// bind begins the transaction and returns those of the items whose key was free and is now their own, until when it is,
// and the caps of the workspaces that have one.
func bind(ctx context.Context, conn *pgxpool.Conn, items []tasks.Submission, first []int) (won []int, expires map[int]time.Time, caps map[string]int64, err error) {
	type item = tasks.Submission
	type key struct{ workspace, operation, key string }
	of, expires := make(map[key]int, len(first)), make(map[int]time.Time, len(first))
	for _, i := range first {
		of[key{items[i].Workspace, items[i].Operation, items[i].Key}] = i
	}
	var batch pgx.Batch
	batch.Queue(`begin`)
	lockWait := submitLockWait
	if len(first) > 1 {
		lockWait = sharedLockWait
	}
	batch.Queue(lockWaitSQL, milliseconds(lockWait))
	batch.Queue(bindSQL,
		texts(items, first, func(s *item) string { return s.Workspace }),
		texts(items, first, func(s *item) string { return s.Operation }),
		texts(items, first, func(s *item) string { return s.Key }),
		column(items, first, func(s *item) []byte { return s.Fingerprint[:] }),
		uuids(items, first, func(s *item) uuid.UUID { return s.TaskID }),
		column(items, first, func(s *item) int64 { return s.Retention.Microseconds() }),
	).Query(func(rows pgx.Rows) error {
		var k key
		var until time.Time
		_, err := pgx.ForEachRow(rows, []any{&k.workspace, &k.operation, &k.key, &until}, func() error {
			won = append(won, of[k])
			expires[of[k]] = until.UTC()
			return nil
		})
		return err
	})
	queueCaps(&batch, items, first, &caps)
	return won, expires, caps, conn.SendBatch(ctx, &batch).Close()
}

// regenerable checks that what is to be answered anew is a message of the item's own conversation (I8).
func regenerable(ctx context.Context, conn *pgxpool.Conn, items []tasks.Submission, won []int) error {
	type item = tasks.Submission
	var anew []int
	for _, i := range won {
		if items[i].Kind == tasks.KindRegenerate {
			anew = append(anew, i)
		}
	}
	if len(anew) == 0 {
		return nil
	}
	var found int
	err := conn.QueryRow(ctx, messagesSQL,
		uuids(items, anew, func(s *item) uuid.UUID { return s.MessageID }),
		texts(items, anew, func(s *item) string { return s.Workspace }),
		texts(items, anew, func(s *item) string { return s.Conversation }),
	).Scan(&found)
	if err == nil && found < len(anew) {
		err = errNoMessage
	}
	return err
}
