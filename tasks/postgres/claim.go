package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

const (
	claimLockWait = 2 * time.Second
	claimLockNext = time.Second // until a task is claimed again whose row stayed locked
)

// An attempt is counted and its ledger row written before the work is handed out (I5, I7), in the same statement.
//
// The ledger is asked for an attempt whose fate is unknown only where there may be one: never for a task's first claim.
// The row lock does not make what it reads as new as the task's row, which may have been claimed and settled between this
// statement's snapshot and its lock. Such a row is another version than the snapshot's, and stale: nothing is decided of
// it, and claimLockSQL comes first the next time. A refused settle writes the ledger alone: hence its own for update.
const claimSQL = `
with input as (
    select * from unnest($1::uuid[], $2::text[]) with ordinality as i (task_id, workspace, n)
), locked as materialized (
    select i.n, t.ctid as place, t.id, t.workspace, t.conversation, t.message_id, t.status, t.assignment_version, t.lease_until,
        t.attempts, t.max_attempts, t.interruptions, t.max_interruptions, t.on_ambiguous, t.available_at, t.deadline,
        t.failure_class, t.reserved_picousd, t.reserved_on
    from input i join reply_tasks t on t.id = i.task_id and t.workspace = i.workspace
    order by t.id for update of t skip locked
), clock as materialized (
    select clock_timestamp() as now from (select count(*) from locked) n
), weighed as materialized (
    select l.*, c.now, case when l.status = 'running' and l.lease_until <= c.now then 1 else 0 end as overrun, case
        when l.status in ('completed', 'failed', 'cancelled') then 'finished'
        when l.status = 'running' and l.lease_until > c.now then 'leased'
        when l.status = 'running' and l.interruptions >= l.max_interruptions then 'interrupted'
        when l.deadline <= c.now then 'deadline'
        when l.attempts >= l.max_attempts then 'attempts'
        when l.available_at > c.now + $5::bigint * interval '1 microsecond' then 'handed_off'
        when l.available_at > c.now then 'not_due'
        when $7::bigint > 0 then 'held'
        else 'claimed' end as weight
    from locked l cross join clock c
), asked as (
    select w.*, w.assignment_version > 0 and (w.weight = 'claimed'
        or w.on_ambiguous = 'stop' and not $8::boolean and w.weight in ('handed_off', 'not_due', 'held')) as ask
    from weighed w
), judged as materialized (
    select k.*, a.assignment_version as lost_version, a.attempt as lost_attempt, a.provider as lost_provider,
        a.provider_ref as lost_ref, a.request_hash as lost_request, a.started_at as lost_at, case
        when k.ask and not exists (select from reply_tasks t where t.id = k.id and t.ctid = k.place) then 'stale'
        when a.attempt is not null and k.on_ambiguous = 'stop' and not $8::boolean then 'stopped'
        else k.weight end as verdict` + claimGone + `
    from asked k left join lateral (
        select * from attempts a
        where k.ask and a.task_id = k.id and a.input_tokens is null
            and (a.ended_at is null or a.failure_class in ('ambiguous', 'cancelled') and a.wire_requests <> 0)
            and not exists (select from attempts r where r.task_id = a.task_id and r.recovered_version = a.assignment_version)
        order by a.assignment_version desc limit 1 for update of a
    ) a on true` + claimGoneFrom + `
), moved as (
    update reply_tasks t set
        status = case j.verdict when 'claimed' then 'running' else 'failed' end,
        assignment_version = t.assignment_version + case j.verdict when 'claimed' then 1 else 0 end,
        attempts = t.attempts + case j.verdict when 'claimed' then 1 else 0 end,
        interruptions = t.interruptions + j.overrun,
        lease_until = case j.verdict when 'claimed' then j.now + $4::bigint * interval '1 microsecond' end,
        worker = case j.verdict when 'claimed' then $3::text else t.worker end,
        finished_at = case j.verdict when 'claimed' then null else j.now end,
        failure_class = case j.verdict when 'interrupted' then 'interrupted' when 'deadline' then 'deadline'
            when 'stopped' then 'ambiguous' when 'attempts' then coalesce(t.failure_class, 'attempts') else t.failure_class end,
        failure_message = case j.verdict when 'interrupted' then (t.interruptions + 1)::text || ' leases ran out'
            when 'deadline' then 'the deadline passed'
            when 'stopped' then 'attempt ' || j.lost_attempt || ' may have run at the provider, and the task says to stop then'
            when 'attempts' then coalesce(t.failure_message, 'every attempt was begun and none was heard of again')
            else t.failure_message end,
        failure_attempt = case when j.verdict = 'stopped' then j.lost_attempt
            when j.verdict = 'claimed' or j.verdict = 'attempts' and t.failure_class is not null then t.failure_attempt
            else t.attempts end
    from judged j
    where t.id = j.id and j.verdict in ('claimed', 'interrupted', 'deadline', 'attempts', 'stopped')
), later as (
    insert into delayed_handoffs (task_id, workspace, due_at)
    select j.id, j.workspace, j.available_at from judged j where j.verdict = 'handed_off'
    on conflict (task_id) do update set due_at = excluded.due_at
), answer as materialized (
    select j.*, m.content, r.model, r.system, r.prompt_template, r.prompt_template_version, r.document_id, r.document_version,
        r.temperature, r.max_output_tokens, r.chat_messages, r.chat_params
    from judged j
    left join messages m on m.id = j.message_id and m.workspace = j.workspace and j.verdict = 'claimed'
    left join task_requests r on r.task_id = j.id and j.verdict = 'claimed'
), ledger as (
    insert into attempts (task_id, assignment_version, attempt, worker, provider, model, started_at)
    select a.id, a.assignment_version + 1, a.attempts + 1, $3::text, $6::text, coalesce(a.model, ''), a.now
    from answer a where a.verdict = 'claimed'
)` + claimCharged + claimSpend + `
select a.n, a.verdict, a.status, a.now, a.lease_until, a.available_at, a.deadline,
    a.id, a.workspace, a.assignment_version + 1, a.attempts + 1, a.max_attempts, a.interruptions + a.overrun, a.max_interruptions,
    a.conversation, a.message_id, a.on_ambiguous, coalesce(a.content, ''), coalesce(a.model, ''), coalesce(a.system, ''),
    coalesce(a.prompt_template, ''), coalesce(a.prompt_template_version, ''), coalesce(a.document_id, ''),
    coalesce(a.document_version, ''), a.temperature, a.max_output_tokens, a.chat_messages, a.chat_params,
    a.lost_version, a.lost_attempt, a.lost_provider, a.lost_ref, a.lost_request, a.lost_at
from answer a where a.verdict <> 'stale'`

// What this has locked, claimSQL does not skip, and its snapshot is of after the lock.
const claimLockSQL = `
select from unnest($1::uuid[], $2::text[]) as i (task_id, workspace)
join reply_tasks t on t.id = i.task_id and t.workspace = i.workspace
order by t.id for update of t`

// Claim implements tasks.Store. A task whose row somebody holds for longer than two seconds is Leased for one more.
func (s *Store) Claim(ctx context.Context, by tasks.Claimer, items []tasks.Ref) ([]tasks.Claimed, error) {
	out := make([]tasks.Claimed, len(items))
	// A task that stands in the batch twice is judged once: the statement would count two attempts for one row version.
	first := make(map[tasks.Ref]int, len(items))
	once := make([]int, 0, len(items))
	for i, item := range items {
		out[i].Decision = tasks.DecisionMissing
		if _, known := first[item]; !known {
			first[item] = i
			once = append(once, i)
		}
	}
	worker, provider := tasks.Cut(by.Worker, tasks.MaxName), tasks.Cut(by.Provider, tasks.MaxName)
	err := judged[tasks.Claimed]{
		pool: s.pool, free: claimSQL, lock: claimLockSQL, held: claimSQL, wait: claimLockWait,
		args: func(part []int) []any {
			return []any{
				uuids(items, part, func(r *tasks.Ref) uuid.UUID { return r.TaskID }),
				texts(items, part, func(r *tasks.Ref) string { return workspace(r.Workspace) }),
				worker, by.Lease.Microseconds(), by.ParkMax.Microseconds(), provider, by.Hold.Microseconds(), by.Recovers,
			}
		},
		scan: func(rows pgx.Rows) (int, tasks.Claimed, error) { return scanClaimed(rows, by.Hold) },
		alone: func(item int, err error) error {
			if !lockTimeout(err) {
				return err
			}
			s.log.Warn("a task's row is locked by somebody; it is claimed again later", "task", items[item].TaskID)
			out[item] = tasks.Claimed{Decision: tasks.DecisionLeased, Status: tasks.StatusRunning, Wait: claimLockNext}
			return nil
		},
	}.run(ctx, once, out)
	if err != nil {
		return nil, s.wrap(ctx, "claim", err)
	}
	for i, item := range items {
		if f := first[item]; f != i {
			out[i] = out[f]
			if out[f].Decision == tasks.DecisionClaimed {
				out[i] = tasks.Claimed{Decision: tasks.DecisionLeased, Status: tasks.StatusRunning, Wait: by.Lease}
			}
		}
	}
	return out, nil
}

func scanClaimed(rows pgx.Rows, hold time.Duration) (place int, c tasks.Claimed, err error) {
	var verdict string
	var now, available, deadline time.Time
	var lease, lostAt *time.Time
	var lostVersion *int64
	var lostAttempt *int
	var lostProvider, lostRef, chatMessages, chatParams *string
	var lostRequest []byte
	w := new(tasks.Work)
	r := &w.Request
	err = rows.Scan(&place, &verdict, &c.Status, &now, &lease, &available, &deadline,
		&w.TaskID, &w.Workspace, &w.Version, &w.Attempts, &w.MaxAttempts, &w.Interruptions, &w.MaxInterruptions,
		&w.Conversation, &w.MessageID, &w.OnAmbiguous, &r.Content, &r.Model, &r.System,
		&r.PromptTemplate, &r.PromptTemplateVersion, &r.Document.ID, &r.Document.Version, &r.Temperature, &r.MaxOutputTokens,
		&chatMessages, &chatParams, &lostVersion, &lostAttempt, &lostProvider, &lostRef, &lostRequest, &lostAt)
	if err != nil {
		return 0, c, err
	}
	switch verdict {
	case "claimed":
		r.Chat = chat(chatMessages, chatParams)
		w.Remaining, w.Queued = deadline.Sub(now), now.Sub(available)
		c.Decision, c.Status, c.Work = tasks.DecisionClaimed, tasks.StatusRunning, w
		if lostVersion != nil {
			w.Lost = &tasks.Lost{
				Version: *lostVersion, Attempt: value(lostAttempt), Provider: value(lostProvider), Ref: value(lostRef),
				Request: lostRequest, Age: now.Sub(value(lostAt)),
			}
		}
	case "leased":
		c.Decision, c.Wait = tasks.DecisionLeased, lease.Sub(now)
	case "not_due":
		c.Decision, c.Wait = tasks.DecisionNotDue, available.Sub(now)
	case "held":
		c.Decision, c.Wait = tasks.DecisionNotDue, min(hold, deadline.Sub(now))
	case "handed_off":
		c.Decision = tasks.DecisionHandedOff
	case "finished":
		c.Decision = tasks.DecisionFinished
	default: // this claim found that the task cannot be run any more
		c.Decision, c.Status = tasks.DecisionFinished, tasks.StatusFailed
	}
	return place, c, nil
}
