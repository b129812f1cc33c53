package postgres

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

const settleLockWait = 2 * time.Second

// Between the parts stands what a place adds: see place.go.
const settleInput = `
with input as (
    select * from unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::text[],
            $9::text[], $10::text[], $11::bigint[], $12::boolean[], $13::integer[], $14::text[], $15::text[], $16::bigint[],
            $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[], $21::text[],
            $22::bigint[], $23::integer[], $24::integer[], $25::text[]`

const settleColumns = `)
        with ordinality as i (task_id, workspace, version, outcome, reply_id, reply_text, reply_model, finish_reason,
            failure_class, failure_message, retry_after, handoff, wire_requests, provider_request_id, call_model, input_tokens,
            output_tokens, picousd, cached_input_tokens, reasoning_tokens, price_version,
            recovered, history_turns, history_dropped, reply_message`

const settleLocked = `, n)
), locked as materialized (
    select i.*, t.message_id, t.status, t.assignment_version, t.lease_until, t.deadline, t.attempts, t.max_attempts,
        t.reply_id as saved_id, t.reserved_picousd, t.reserved_on
    from input i join reply_tasks t on t.id = i.task_id and t.workspace = i.workspace
    order by t.id for update of t`

// A settle that finds its assignment over may be a repeat of one that was accepted, whose answer was lost. The ledger's
// row of the version says so: for update, because the first one may have been committed after this statement's snapshot.
// A released attempt has no row any more.
const settleMoves = `
), clock as materialized (
    select clock_timestamp() as now from (select count(*) from locked) n
), weighed as materialized (
    select l.*, c.now, case
        when l.status = 'running' and l.assignment_version = l.version then case
            when l.lease_until <= c.now then 'lease_expired'
            when l.outcome = 'complete' and l.deadline <= c.now then 'deadline'
            else 'accepted' end
        when case (select a.outcome from attempts a where a.task_id = l.task_id and a.assignment_version = l.version for update)
            when 'accepted' then l.outcome = 'complete' and l.saved_id = l.reply_id
            when 'failed' then l.outcome = 'retry' and (l.status <> 'failed' or l.assignment_version <> l.version)
                or l.outcome = 'fail' and l.status = 'failed' and l.assignment_version = l.version
            when 'not_accepted' then false
            when 'unknown' then false
            else l.outcome = 'release' and l.version between 1 and l.assignment_version end then 'repeated'
        when l.status = 'cancelled' then 'cancelled'
        when l.status in ('completed', 'failed') then 'terminal'
        else 'taken_over' end as verdict
    from locked l cross join clock c
), judged as materialized (
    select w.*, case w.verdict
        when 'deadline' then 'failed'
        when 'accepted' then case w.outcome when 'complete' then 'completed' when 'fail' then 'failed' else 'queued' end
        else w.status end as next,` + settleSpent + settleImages + `
    from weighed w` + settleSpentFrom + settleImagesFrom + `
), moved as (
    update reply_tasks t set
        status = j.next,
        lease_until = null,
        attempts = t.attempts - case j.outcome when 'release' then 1 else 0 end,
        available_at = case j.outcome when 'retry' then j.now + j.retry_after * interval '1 microsecond' else t.available_at end,
        finished_at = case j.next when 'queued' then null else j.now end,
        reply_id = case j.next when 'completed' then j.reply_id end,
        failure_class = case when j.verdict = 'deadline' then 'deadline' when j.outcome in ('retry', 'fail') then j.failure_class
            else t.failure_class end,
        failure_message = case when j.verdict = 'deadline' then 'the reply came after the deadline'
            when j.outcome in ('retry', 'fail') then j.failure_message else t.failure_message end,
        failure_attempt = case when j.verdict = 'deadline' or j.outcome in ('retry', 'fail') then t.attempts
            else t.failure_attempt end
    from judged j
    where t.id = j.task_id and j.verdict in ('accepted', 'deadline')
), saved as (
    insert into replies (task_id, id, message_id, text, model, finish_reason, attempt, saved_at, message)
    select j.task_id, j.reply_id, j.message_id, j.reply_text, j.reply_model, j.finish_reason, j.attempts, j.now, j.reply_message
    from judged j where j.verdict = 'accepted' and j.outcome = 'complete'
), later as (
    insert into delayed_handoffs (task_id, workspace, due_at)
    select j.task_id, j.workspace, j.now + j.retry_after * interval '1 microsecond'
    from judged j where j.verdict = 'accepted' and j.outcome = 'retry' and j.handoff
    on conflict (task_id) do update set due_at = excluded.due_at
), uncounted as (
    delete from attempts a using judged j
    where a.task_id = j.task_id and a.assignment_version = j.version and j.verdict = 'accepted' and j.outcome = 'release'
), ledger as (
    update attempts a set
        ended_at = j.now,
        outcome = case when j.verdict <> 'accepted' then 'not_accepted' when j.outcome = 'complete' then 'accepted' else 'failed' end,
        failure_class = case when j.outcome <> 'complete' then j.failure_class end,
        wire_requests = j.wire_requests, provider_request_id = case j.recovered when 0 then j.provider_request_id end,
        model = case j.call_model when '' then a.model else j.call_model end,
        input_tokens = case j.recovered when 0 then j.input_tokens else 0 end,
        output_tokens = case j.recovered when 0 then j.output_tokens else 0 end,
        picousd = case j.recovered when 0 then j.picousd else 0 end,
        cached_input_tokens = case j.recovered when 0 then j.cached_input_tokens else 0 end,
        reasoning_tokens = case j.recovered when 0 then j.reasoning_tokens else 0 end,
        price_version = case j.recovered when 0 then nullif(j.price_version, '') end,
        recovered_version = nullif(j.recovered, 0), history_turns = j.history_turns, history_dropped = j.history_dropped
    from judged j
    where a.task_id = j.task_id and a.assignment_version = j.version and a.ended_at is null
        and not (j.verdict = 'accepted' and j.outcome = 'release')` + settleEnded + `
), regained as (
    update attempts a set
        ended_at = case when j.input_tokens is null then a.ended_at else coalesce(a.ended_at, j.now) end,
        outcome = case when j.input_tokens is not null and a.outcome = 'unknown' then 'not_accepted' else a.outcome end,
        wire_requests = greatest(a.wire_requests, 1),
        provider_request_id = coalesce(nullif(a.provider_request_id, ''), j.provider_request_id),
        input_tokens = j.input_tokens, output_tokens = j.output_tokens, picousd = j.picousd,
        cached_input_tokens = j.cached_input_tokens, reasoning_tokens = j.reasoning_tokens,
        price_version = nullif(j.price_version, '')
    from judged j
    where j.recovered > 0 and j.verdict <> 'repeated' and j.outcome <> 'release'
        and a.task_id = j.task_id and a.assignment_version = j.recovered and a.input_tokens is null
)`

const settleAnswer = `
select j.n, j.verdict, j.next, false from judged j`

const (
	settleFreeSQL = settleInput + settleColumns + settleLocked + ` skip locked` + settleMoves + settleCharged + settleSpend + settleAnswer
	settleHeldSQL = settleInput + settleColumns + settleLocked + settleMoves + settleCharged + settleSpend + settleAnswer
)

// Settle implements tasks.Store. A task whose row somebody holds for longer than two seconds is VerdictHeld.
func (s *Store) Settle(ctx context.Context, items []tasks.Settlement) ([]tasks.Settled, error) {
	out := make([]tasks.Settled, len(items))
	free, held, args := settleFreeSQL, settleHeldSQL, settleArgs
	if slices.ContainsFunc(items, func(s tasks.Settlement) bool { return !s.Place.Zero() }) {
		free, held, args = settlePlacedFreeSQL, settlePlacedHeldSQL, settlePlacedArgs
	}
	var bad []int
	for _, round := range settleRounds(items) {
		good := make([]int, 0, len(round))
		for _, i := range round {
			out[i].Verdict = tasks.VerdictMissing
			if err := items[i].Check(); err != nil {
				out[i] = tasks.Settled{Verdict: tasks.VerdictInvalid, Err: err}
				bad = append(bad, i)
				continue
			}
			good = append(good, i)
		}
		err := judged[tasks.Settled]{
			pool: s.pool, free: free, held: held, wait: settleLockWait,
			args: func(part []int) []any { return args(items, part) },
			scan: func(rows pgx.Rows) (place int, r tasks.Settled, err error) {
				err = rows.Scan(&place, &r.Verdict, &r.Status, &r.Fenced)
				if r.Verdict == "repeated" {
					r.Verdict = tasks.VerdictAccepted
				}
				return place, r, err
			},
			alone: func(item int, err error) error {
				if lockTimeout(err) {
					s.log.Warn("a task's row is locked by somebody; it is settled again later", "task", items[item].TaskID)
					out[item] = tasks.Settled{Verdict: tasks.VerdictHeld}
					return nil
				}
				s.log.Warn("a settlement cannot be stored", "task", items[item].TaskID, "error", err)
				out[item] = tasks.Settled{Verdict: tasks.VerdictInvalid, Err: invalid(err)}
				bad = append(bad, item)
				return nil
			},
			size: func(item int) int {
				return len(items[item].Candidate.Text) + len(items[item].Candidate.Message) + len(items[item].Failure.Message)
			},
		}.run(ctx, good, out)
		if err != nil {
			return nil, s.wrap(ctx, "settle", err)
		}
	}
	if err := s.refused(ctx, items, bad, out); err != nil {
		return nil, err
	}
	return out, nil
}

// refused fills in what the tasks of invalid settlements are, by settling assignments that nobody has in their stead: no
// version is 0. What ends their records stores their places too.
func (s *Store) refused(ctx context.Context, items []tasks.Settlement, bad []int, out []tasks.Settled) error {
	if len(bad) == 0 {
		return nil
	}
	asks := make([]tasks.Settlement, len(bad))
	for i, item := range bad {
		ref := tasks.Assignment{TaskID: items[item].TaskID, Workspace: items[item].Workspace}
		asks[i] = tasks.Settlement{Assignment: ref, Outcome: tasks.OutcomeRelease, Place: items[item].Place}
	}
	answers, err := s.Settle(ctx, asks)
	if err != nil {
		return err
	}
	for i, item := range bad {
		if answers[i].Verdict == tasks.VerdictMissing {
			out[item] = answers[i]
			continue
		}
		out[item].Status, out[item].Fenced = answers[i].Status, answers[i].Fenced
	}
	return nil
}

// settleRounds parts the items so that no task is in a round twice: its second settlement is judged by what the first
// one left.
func settleRounds(items []tasks.Settlement) [][]int {
	var rounds [][]int
	seen := make(map[uuid.UUID]int, len(items))
	for i := range items {
		n := seen[items[i].TaskID]
		seen[items[i].TaskID]++
		if n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], i)
	}
	return rounds
}

func settleArgs(items []tasks.Settlement, part []int) []any {
	type item = tasks.Settlement
	return []any{
		uuids(items, part, func(s *item) uuid.UUID { return s.TaskID }),
		texts(items, part, func(s *item) string { return workspace(s.Workspace) }),
		column(items, part, func(s *item) int64 { return s.Version }),
		texts(items, part, func(s *item) string { return string(s.Outcome) }),
		uuids(items, part, func(s *item) uuid.UUID { return s.Candidate.ReplyID }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Candidate.Text) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Candidate.Model) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Candidate.FinishReason) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Failure.Class) }),
		texts(items, part, func(s *item) string { return tasks.Cut(s.Failure.Message, tasks.MaxFailureText) }),
		column(items, part, func(s *item) int64 { return max(0, s.RetryAfter.Microseconds()) }),
		column(items, part, func(s *item) bool { return s.Handoff }),
		column(items, part, func(s *item) int32 { return number(s.Call.WireRequests) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Call.ProviderRequestID) }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Call.Model) }),
		column(items, part, func(s *item) *int64 { return s.Call.InputTokens }),
		column(items, part, func(s *item) *int64 { return s.Call.OutputTokens }),
		column(items, part, func(s *item) *int64 { return s.Call.PicoUSD }),
		column(items, part, func(s *item) *int64 { return s.Call.CachedInputTokens }),
		column(items, part, func(s *item) *int64 { return s.Call.ReasoningTokens }),
		texts(items, part, func(s *item) string { return tasks.Clean(s.Call.PriceVersion) }),
		column(items, part, func(s *item) int64 { return s.Call.Recovered }),
		column(items, part, func(s *item) int32 { return number(s.Call.HistoryTurns) }),
		column(items, part, func(s *item) int32 { return number(s.Call.HistoryDropped) }),
		column(items, part, func(s *item) *string { return optional(s.Candidate.Message) }),
	}
}

// number is what an integer column can hold of n.
func number(n int) int32 { return int32(min(max(0, n), math.MaxInt32)) }
