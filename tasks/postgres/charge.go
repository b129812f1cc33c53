package postgres

// What the moves of a task that has a reservation do to the account of its day: parts of the statements that make them.
// They find nothing to do for other tasks.
//
// What a task has been charged is the sum over its attempts: of one that has ended its amount, or, where that is not known
// although something was on the wire, what was reserved; of one that has not, what was presumed when the task went on
// without it, which is what was reserved, or nothing yet. What is left of the reservation goes back when the task ends.
// Attempts are read for update, since a refused settle writes the ledger and not the task's row: see claimSQL.

// settleSpent is by how much a settle changes what its task has been charged: by its own attempt, unless that has ended
// or was never begun, and by an earlier one whose answer it has recovered.
const settleSpent = `
        case when own.open and not (w.verdict = 'accepted' and w.outcome = 'release') then
            case when w.recovered > 0 or w.picousd is null and coalesce(w.wire_requests, 0) = 0 then 0
                else coalesce(w.picousd, w.reserved_picousd) end - own.presumed else 0 end
        + case when earlier.charged is not null then coalesce(w.picousd, w.reserved_picousd) - earlier.charged else 0 end as spent`

const settleSpentFrom = `
    left join lateral (
        select true as open, coalesce(a.presumed_picousd, 0) as presumed from attempts a
        where w.reserved_picousd is not null and a.task_id = w.task_id and a.assignment_version = w.version
            and a.ended_at is null
        for update of a
    ) own on true
    left join lateral (
        select case when a.ended_at is null then coalesce(a.presumed_picousd, 0)
            when a.picousd is null and a.wire_requests > 0 then w.reserved_picousd else coalesce(a.picousd, 0) end as charged
        from attempts a
        where w.reserved_picousd is not null and w.recovered > 0 and w.input_tokens is not null
            and w.verdict <> 'repeated' and w.outcome <> 'release'
            and a.task_id = w.task_id and a.assignment_version = w.recovered and a.input_tokens is null
        for update of a
    ) earlier on true`

const settleCharged = `, charged as (
    insert into budget_changes (workspace, day, spent, reserved)
    select c.workspace, c.reserved_on, c.spent, c.reserved from (
        select j.workspace, j.reserved_on, j.spent, case when j.verdict in ('accepted', 'deadline')
            and j.next in ('completed', 'failed') then -j.reserved_picousd else 0 end as reserved
        from judged j where j.reserved_picousd is not null
    ) c where c.spent <> 0 or c.reserved <> 0
)`

// The tasks are named once more, in a form that is known before the join: a plan that was made while the ledger was empty
// would otherwise go through all of it for each of them.
const claimCharged = `, presumed as (
    update attempts a set presumed_picousd = j.reserved_picousd
    from judged j
    where a.task_id = any (array(select o.id from judged o where o.reserved_picousd is not null and o.overrun = 1))
        and j.reserved_picousd is not null and j.overrun = 1
        and j.verdict in ('claimed', 'interrupted', 'deadline', 'attempts', 'stopped')
        and a.task_id = j.id and a.assignment_version = j.assignment_version
        and a.ended_at is null and a.presumed_picousd is null
    returning j.workspace, j.reserved_on, a.presumed_picousd
), charged as (
    insert into budget_changes (workspace, day, spent, reserved)
    select p.workspace, p.reserved_on, p.presumed_picousd, 0 from presumed p
    union all
    select j.workspace, j.reserved_on, 0, -j.reserved_picousd from judged j
    where j.reserved_picousd is not null and j.verdict in ('interrupted', 'deadline', 'attempts', 'stopped')
)`

const cancelCharged = `, presumed as (
    update attempts a set presumed_picousd = l.reserved_picousd
    from locked l cross join (select count(*) from gone) g
    where l.reserved_picousd is not null and l.status = 'running' and a.task_id = $2
        and a.task_id = l.id and a.assignment_version = l.assignment_version
        and a.ended_at is null and a.presumed_picousd is null
    returning l.workspace, l.reserved_on, a.presumed_picousd
), charged as (
    insert into budget_changes (workspace, day, spent, reserved)
    select p.workspace, p.reserved_on, p.presumed_picousd, 0 from presumed p
    union all
    select l.workspace, l.reserved_on, 0, -l.reserved_picousd from locked l
    where l.reserved_picousd is not null and l.status in ('queued', 'running')
)`
