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

// The parts of the claim up to the lock, and after it. An attempt is counted and its ledger row written before the work
// is handed out (I5, I7), in the same statement.
const claimHead = `
with input as (
    select * from unnest($1::uuid[], $2::text[]) with ordinality as i (task_id, workspace, n)
), locked as materialized (
    select i.n, t.id, t.workspace, t.conversation, t.message_id, t.status, t.assignment_version, t.lease_until,
        t.attempts, t.max_attempts, t.interruptions, t.max_interruptions, t.on_ambiguous, t.available_at, t.deadline,
        t.failure_class
    from input i join reply_tasks t on t.id = i.task_id and t.workspace = i.workspace
    order by t.id for update of t`

const claimTail = `
), clock as materialized (
    select clock_timestamp() as now from (select count(*) from locked) n
), judged as materialized (
    select l.*, c.now, case when l.status = 'running' and l.lease_until <= c.now then 1 else 0 end as overrun, case
        when l.status in ('completed', 'failed', 'cancelled') then 'finished'
        when l.status = 'running' and l.lease_until > c.now then 'leased'
        when l.status = 'running' and l.interruptions >= l.max_interruptions then 'interrupted'
        when l.deadline <= c.now then 'deadline'
        when l.attempts >= l.max_attempts then 'attempts'
        when l.available_at > c.now + $5::bigint * interval '1 microsecond' then 'handed_off'
        when l.available_at > c.now then 'not_due'
        else 'claimed' end as verdict
    from locked l cross join clock c
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
            when 'attempts' then coalesce(t.failure_class, 'attempts') else t.failure_class end,
        failure_message = case j.verdict when 'interrupted' then (t.interruptions + 1)::text || ' leases ran out'
            when 'deadline' then 'the deadline passed'
            when 'attempts' then coalesce(t.failure_message, 'every attempt was begun and none was heard of again')
            else t.failure_message end,
        failure_attempt = case when j.verdict = 'claimed' or j.verdict = 'attempts' and t.failure_class is not null
            then t.failure_attempt else t.attempts end
    from judged j
    where t.id = j.id and j.verdict in ('claimed', 'interrupted', 'deadline', 'attempts')
), later as (
    insert into delayed_handoffs (task_id, workspace, due_at)
    select j.id, j.workspace, j.available_at from judged j where j.verdict = 'handed_off'
    on conflict (task_id) do update set due_at = excluded.due_at
), answer as materialized (
    select j.*, m.content, r.model, r.system, r.prompt_template, r.document_id, r.document_version, r.temperature,
        r.max_output_tokens
    from judged j
    left join messages m on m.id = j.message_id and m.workspace = j.workspace and j.verdict = 'claimed'
    left join task_requests r on r.task_id = j.id and j.verdict = 'claimed'
), ledger as (
    insert into attempts (task_id, assignment_version, attempt, worker, provider, model, started_at)
    select a.id, a.assignment_version + 1, a.attempts + 1, $3::text, $6::text, coalesce(a.model, ''), a.now
    from answer a where a.verdict = 'claimed'
)
select a.n, a.verdict, a.status, a.now, a.lease_until, a.available_at, a.deadline,
    a.id, a.workspace, a.assignment_version + 1, a.attempts + 1, a.max_attempts, a.interruptions + a.overrun, a.max_interruptions,
    a.conversation, a.message_id, a.on_ambiguous, coalesce(a.content, ''), coalesce(a.model, ''), coalesce(a.system, ''),
    coalesce(a.prompt_template, ''), coalesce(a.document_id, ''), coalesce(a.document_version, ''), a.temperature,
    a.max_output_tokens
from answer a`

const (
	claimFreeSQL = claimHead + ` skip locked` + claimTail
	claimHeldSQL = claimHead + claimTail
)

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
		pool: s.pool, free: claimFreeSQL, held: claimHeldSQL, wait: claimLockWait,
		args: func(part []int) []any {
			return []any{
				uuids(items, part, func(r *tasks.Ref) uuid.UUID { return r.TaskID }),
				texts(items, part, func(r *tasks.Ref) string { return workspace(r.Workspace) }),
				worker, by.Lease.Microseconds(), by.ParkMax.Microseconds(), provider,
			}
		},
		scan: scanClaimed,
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

func scanClaimed(rows pgx.Rows) (place int, c tasks.Claimed, err error) {
	var verdict string
	var now, available, deadline time.Time
	var lease *time.Time
	w := new(tasks.Work)
	r := &w.Request
	err = rows.Scan(&place, &verdict, &c.Status, &now, &lease, &available, &deadline,
		&w.TaskID, &w.Workspace, &w.Version, &w.Attempts, &w.MaxAttempts, &w.Interruptions, &w.MaxInterruptions,
		&w.Conversation, &w.MessageID, &w.OnAmbiguous, &r.Content, &r.Model, &r.System,
		&r.PromptTemplate, &r.Document.ID, &r.Document.Version, &r.Temperature, &r.MaxOutputTokens)
	if err != nil {
		return 0, c, err
	}
	switch verdict {
	case "claimed":
		w.Remaining, w.Queued = deadline.Sub(now), now.Sub(available)
		c.Decision, c.Status, c.Work = tasks.DecisionClaimed, tasks.StatusRunning, w
	case "leased":
		c.Decision, c.Wait = tasks.DecisionLeased, lease.Sub(now)
	case "not_due":
		c.Decision, c.Wait = tasks.DecisionNotDue, available.Sub(now)
	case "handed_off":
		c.Decision = tasks.DecisionHandedOff
	case "finished":
		c.Decision = tasks.DecisionFinished
	default: // this claim found the budget or the deadline spent
		c.Decision, c.Status = tasks.DecisionFinished, tasks.StatusFailed
	}
	return place, c, nil
}
