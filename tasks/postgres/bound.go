package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// A replay is counted by the statement that finds it, so that no answer is given whose count can be lost, and none costs
// a round trip more. Rows are locked in the order of their keys; whoever inserts a key holds no row that others wait for.
const boundSQL = `
with input as (
    select * from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::uuid[])
        with ordinality as i (workspace, operation, key, fingerprint, task_id, n)
), locked as materialized (
    select i.n, i.fingerprint as asked, i.task_id as own, s.workspace, s.operation, s.key, s.fingerprint, s.task_id, s.expires_at
    from input i
    join submissions s on s.workspace = i.workspace and s.operation = i.operation and s.key = i.key
    order by s.workspace, s.operation, s.key for no key update of s
), clock as materialized (
    select clock_timestamp() as now from (select count(*) from locked) n
), judged as materialized (
    select l.*, case
        when l.task_id = l.own then 'own' -- our own commit, whose acknowledgement was lost
        when l.expires_at <= c.now then 'expired'
        when l.fingerprint <> l.asked then 'reused'
        else 'replayed' end as verdict
    from locked l cross join clock c
), counted as (
    update submissions s set replays = s.replays + r.times
    from (select workspace, operation, key, count(*) as times from judged where verdict = 'replayed' group by 1, 2, 3) r
    where s.workspace = r.workspace and s.operation = r.operation and s.key = r.key
)` + replaySaved + `
select j.n, j.verdict, j.task_id, j.expires_at, t.accepted_at, t.deadline
from judged j left join reply_tasks t on t.id = j.task_id`

const expireSQL = `
with doomed as materialized (
    select s.workspace, s.operation, s.key
    from unnest($1::text[], $2::text[], $3::text[]) as i (workspace, operation, key)
    join submissions s on s.workspace = i.workspace and s.operation = i.operation and s.key = i.key
    where s.expires_at <= clock_timestamp()
    order by s.workspace, s.operation, s.key for update of s
)
delete from submissions s using doomed d
where s.workspace = d.workspace and s.operation = d.operation and s.key = d.key`

// bound says of items whose key was taken what it is bound to. It returns those whose key is free again: its submission
// was undone, or had expired, and is then deleted.
func (s *Store) bound(ctx context.Context, items []tasks.Submission, taken []int, out []tasks.Submitted) (open []int, err error) {
	slices.Sort(taken)
	for _, part := range parts(taken, func(int) int { return 0 }) {
		var free []int
		if err := repeat(ctx, func() error { free, err = s.find(ctx, items, part, out); return err }); err != nil {
			return nil, err
		}
		open = append(open, free...)
	}
	return open, nil
}

func (s *Store) find(ctx context.Context, items []tasks.Submission, part []int, out []tasks.Submitted) (open []int, err error) {
	type item = tasks.Submission
	keys := func(part []int) []any {
		return []any{
			texts(items, part, func(s *item) string { return s.Workspace }),
			texts(items, part, func(s *item) string { return s.Operation }),
			texts(items, part, func(s *item) string { return s.Key }),
		}
	}
	rows, err := s.pool.Query(ctx, boundSQL, append(keys(part),
		column(items, part, func(s *item) []byte { return s.Fingerprint[:] }),
		uuids(items, part, func(s *item) uuid.UUID { return s.TaskID }))...)
	if err != nil {
		return nil, err
	}
	known := make([]bool, len(part))
	var expired []int
	var place int
	var verdict string
	var task uuid.UUID
	var expires time.Time
	var accepted, deadline *time.Time
	_, err = pgx.ForEachRow(rows, []any{&place, &verdict, &task, &expires, &accepted, &deadline}, func() error {
		i := part[place-1]
		switch verdict {
		case "own":
			out[i] = tasks.Submitted{TaskID: task, AcceptedAt: utc(accepted), Deadline: utc(deadline), ExpiresAt: expires.UTC()}
		case "reused":
			out[i] = tasks.Submitted{TaskID: task, Err: tasks.ErrKeyReused}
		case "replayed":
			out[i] = tasks.Submitted{TaskID: task, Replayed: true, ExpiresAt: expires.UTC()}
		default:
			expired = append(expired, i)
			return nil
		}
		known[place-1] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(expired) > 0 {
		if _, err := s.pool.Exec(ctx, expireSQL, keys(expired)...); err != nil {
			return nil, err
		}
	}
	for n, i := range part {
		if !known[n] {
			open = append(open, i)
		}
	}
	return open, nil
}
