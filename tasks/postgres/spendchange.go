package postgres

// The ledger is summed as it is written: the statements that change an attempt, or the fate of one that is not heard of,
// insert images of it into spend_changes, one that counts from now on and one that counts no more. FoldSpend adds them up a
// second later, or a day, and every query reads the sums together with what is not in them yet. So a settle waits for no
// sum, and an answer is right at once.
//
// An attempt counts once it has ended, or once its task has gone on or ended without it: then it is unknown. It counts on
// the day it began on, also when it is heard of later: a correction finds what it corrects, and the provider's own account
// has it there. These are parts of the statements named; what they read of attempts is read for update, before any part of
// the statement writes: see claimSQL.

const spendChange = `
    insert into spend_changes (workspace, task_id, day, model, sign, unknown, unpriced, not_accepted, input_tokens,
        cached_input_tokens, output_tokens, reasoning_tokens, picousd)`

const (
	settleImages = `, late.image as late, found.image as found, late.recovered as late_recovered, found.recovered as found_recovered`
	// Of a settle that is refused because its task had gone on or ended, the attempt, where it counts as unknown so far; and
	// the attempt whose answer was recovered. Whether such an answer became the reply by another one's hand is asked too.
	settleImagesFrom = `
    left join lateral (
        select a as image, exists (select from attempts r where r.task_id = w.task_id and r.recovered_version = w.version
            and r.outcome = 'accepted') as recovered
        from attempts a
        where w.verdict in ('taken_over', 'cancelled', 'terminal') and a.task_id = w.task_id and a.assignment_version = w.version
            and a.ended_at is null
        for update of a
    ) late on true
    left join lateral (
        select a as image, exists (select from attempts r where r.task_id = w.task_id and r.recovered_version = w.recovered
            and r.outcome = 'accepted') as recovered
        from attempts a
        where w.recovered > 0 and w.verdict <> 'repeated' and w.outcome <> 'release'
            and a.task_id = w.task_id and a.assignment_version = w.recovered
        for update of a
    ) found on true`

	settleEnded = `
    returning a.started_at, a.model as attempt_model, a.outcome as attempt_outcome, a.wire_requests, a.input_tokens, a.cached_input_tokens,
        a.output_tokens, a.reasoning_tokens, a.picousd, j.workspace, j.task_id, j.late_recovered`

	settleSpend = `, spent as (` + spendChange + `
    select s.workspace, s.task_id, (s.started_at at time zone 'utc')::date, s.model, s.sign,
        s.picousd is null and s.wire > 0 and s.input_tokens is null and s.output_tokens is null,
        s.picousd is null and s.wire > 0 and (s.input_tokens is not null or s.output_tokens is not null),
        s.outcome in ('not_accepted', 'failed') and not s.recovered and (s.picousd > 0 or s.input_tokens > 0 or s.output_tokens > 0) is true,
        s.input_tokens, s.cached_input_tokens, s.output_tokens, s.reasoning_tokens, s.picousd
    from (
        select l.workspace, l.task_id, l.started_at, l.attempt_model as model, 1 as sign, l.wire_requests as wire, l.attempt_outcome as outcome,
            coalesce(l.late_recovered, false) as recovered, l.input_tokens, l.cached_input_tokens, l.output_tokens, l.reasoning_tokens, l.picousd
        from ledger l
        union all
        select j.workspace, j.task_id, (j.late).started_at, (j.late).model, -1, 1, 'unknown', false,
            (j.late).input_tokens, (j.late).cached_input_tokens, (j.late).output_tokens, (j.late).reasoning_tokens, (j.late).picousd
        from judged j where (j.late).task_id is not null
        union all
        select j.workspace, j.task_id, (j.found).started_at, (j.found).model, -1,
            case when (j.found).ended_at is null then 1 else (j.found).wire_requests end, (j.found).outcome, j.found_recovered,
            (j.found).input_tokens, (j.found).cached_input_tokens, (j.found).output_tokens, (j.found).reasoning_tokens, (j.found).picousd
        from judged j where (j.found).task_id is not null
        union all
        select j.workspace, j.task_id, (j.found).started_at, (j.found).model, 1,
            case when e.heard then (j.found).wire_requests else 1 end,
            case when (j.found).outcome = 'unknown' and j.input_tokens is not null then 'not_accepted' else (j.found).outcome end,
            j.found_recovered or j.verdict = 'accepted' and j.outcome = 'complete',
            case when e.heard then (j.found).input_tokens else j.input_tokens end,
            case when e.heard then (j.found).cached_input_tokens else j.cached_input_tokens end,
            case when e.heard then (j.found).output_tokens else j.output_tokens end,
            case when e.heard then (j.found).reasoning_tokens else j.reasoning_tokens end,
            case when e.heard then (j.found).picousd else j.picousd end
        from judged j cross join lateral (select (j.found).input_tokens is not null as heard) e where (j.found).task_id is not null
    ) s
)`
)

const (
	claimGone     = `, gone.started_at as gone_at, gone.model as gone_model`
	claimGoneFrom = `
    left join lateral (
        select a.started_at, a.model from attempts a
        where k.overrun = 1 and (k.weight <> 'held' or k.on_ambiguous = 'stop') and a.task_id = k.id and a.assignment_version = k.assignment_version and a.ended_at is null
        for update of a
    ) gone on true`
	claimSpend = `, spent as (` + spendChange + `
    select j.workspace, j.id, (j.gone_at at time zone 'utc')::date, j.gone_model, 1, true, false, false, null, null, null, null, null
    from judged j
    where j.gone_at is not null and j.verdict in ('claimed', 'interrupted', 'deadline', 'attempts', 'stopped')
)`

	cancelGone = `
), gone as materialized (
    select l.workspace, l.id, a.started_at, a.model from locked l cross join lateral (
        select * from attempts a
        where l.status = 'running' and a.task_id = l.id and a.assignment_version = l.assignment_version and a.ended_at is null
        for update of a
    ) a`
	cancelSpend = `, spent as (` + spendChange + `
    select g.workspace, g.id, (g.started_at at time zone 'utc')::date, g.model, 1, true, false, false, null, null, null, null, null from gone g
)`
)

// A replay of a task that has ended saves what that cost, on the day of the replay and under the model that came last.
const replaySaved = `, saved as (` + spendChange + `
    select j.workspace, j.task_id, (statement_timestamp() at time zone 'utc')::date,
        coalesce(a.model, (select r.model from task_requests r where r.task_id = j.task_id), ''), 0, false, false, false,
        null, null, null, null, a.picousd
    from judged j join reply_tasks t on t.id = j.task_id and t.finished_at is not null
    cross join lateral (
        select (array_agg(a.model order by a.assignment_version desc))[1] as model, least(coalesce(sum(a.picousd), 0), 9000000000000000000)::bigint as picousd
        from attempts a where a.task_id = j.task_id
    ) a
    where j.verdict = 'replayed'
)`
