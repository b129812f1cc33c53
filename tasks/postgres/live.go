package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// liveBytes is how much text one Live brings; who has not got all of it asks again.
const liveBytes = partBytes

var _ tasks.LiveTexts = (*Store)(nil)

// Pieces are only ever inserted: a reader takes those of the greatest version in its snapshot, so that two workers that
// publish at once need not see each other, and nothing is locked. What is hidden thereby goes with the task's end.
//
// bytes sums the text of the attempt up to the piece, which says in one look-up how much is there. The first piece that
// is too much is kept without its text, as the mark that nothing may follow.
const publishSQL = `
with input as (
    select i.*, max(version) over (partition by task_id) as newest,
        min(first_index) over (partition by task_id, version) as begins,
        sum(octet_length(text)) over (partition by task_id, version order by first_index) as upto
    from unnest($1::uuid[], $2::bigint[], $3::integer[], $4::integer[], $5::integer[], $6::text[])
        as i (task_id, version, attempt, first_index, tokens, text)
), summed as materialized (
    select i.*, i.upto + coalesce((
            select l.bytes from live_texts l
            where l.task_id = i.task_id and l.assignment_version = i.version and l.first_index < i.begins
            order by l.first_index desc limit 1), 0) as bytes
    from input i
    where i.version = i.newest
        and not exists (select from live_texts l where l.task_id = i.task_id and l.assignment_version > i.version)
)
insert into live_texts (task_id, assignment_version, first_index, attempt, tokens, text, bytes, created_at)
select s.task_id, s.version, s.first_index, s.attempt, s.tokens, case when s.bytes <= $7::bigint then s.text else '' end,
    s.bytes, statement_timestamp()
from summed s where s.bytes - octet_length(s.text) <= $7::bigint
order by s.task_id, s.version, s.first_index
on conflict do nothing`

// Publish implements tasks.LiveTexts.
func (s *Store) Publish(ctx context.Context, pieces []tasks.LivePiece) error {
	type item = tasks.LivePiece
	// The pieces of an attempt come into one statement, or into several in their order.
	all := indexes(len(pieces))
	slices.SortStableFunc(all, func(a, b int) int {
		x, y := &pieces[a], &pieces[b]
		return cmp.Or(slices.Compare(x.TaskID[:], y.TaskID[:]), cmp.Compare(x.Version, y.Version), cmp.Compare(x.Index, y.Index))
	})
	for _, part := range parts(all, func(i int) int { return len(pieces[i].Text) }) {
		err := repeat(ctx, func() error {
			_, err := s.pool.Exec(ctx, publishSQL,
				uuids(pieces, part, func(p *item) uuid.UUID { return p.TaskID }),
				column(pieces, part, func(p *item) int64 { return p.Version }),
				column(pieces, part, func(p *item) int32 { return int32(p.Attempt) }),
				column(pieces, part, func(p *item) int32 { return int32(p.Index) }),
				column(pieces, part, func(p *item) int32 { return int32(p.Tokens) }),
				texts(pieces, part, func(p *item) string { return tasks.Clean(p.Text) }),
				tasks.MaxLiveText,
			)
			return err
		})
		if err != nil {
			return s.wrap(ctx, "publish live texts", err)
		}
	}
	return nil
}

// What somebody else is deleting just now is left to them.
const dropLiveSQL = `
with doomed as materialized (
    select l.task_id, l.assignment_version, l.first_index
    from unnest($1::uuid[], $2::bigint[]) as i (task_id, version)
    join live_texts l on l.task_id = i.task_id and l.assignment_version <= i.version
    order by l.task_id, l.assignment_version, l.first_index for update of l skip locked
)
delete from live_texts l using doomed d
where l.task_id = d.task_id and l.assignment_version = d.assignment_version and l.first_index = d.first_index`

// Drop implements tasks.LiveTexts.
func (s *Store) Drop(ctx context.Context, ended []tasks.Assignment) error {
	type item = tasks.Assignment
	for _, part := range parts(indexes(len(ended)), func(int) int { return 0 }) {
		err := repeat(ctx, func() error {
			_, err := s.pool.Exec(ctx, dropLiveSQL,
				uuids(ended, part, func(a *item) uuid.UUID { return a.TaskID }),
				column(ended, part, func(a *item) int64 { return a.Version }),
			)
			return err
		})
		if err != nil {
			return s.wrap(ctx, "drop live texts", err)
		}
	}
	return nil
}

const liveSQL = `
select p.task_id, p.assignment_version, p.attempt, p.first_index, p.tokens, p.text
from (
    select c.n, l.*, sum(octet_length(l.text)) over (order by c.n, l.first_index) as running
    from unnest($1::uuid[], $2::bigint[], $3::integer[]) with ordinality as c (task_id, version, index, n)
    cross join lateral (
        select l.assignment_version as version from live_texts l
        where l.task_id = c.task_id order by l.assignment_version desc limit 1
    ) newest
    join live_texts l on l.task_id = c.task_id and l.assignment_version = newest.version
        and l.first_index >= case when newest.version = c.version then c.index else 0 end
    where newest.version >= c.version and l.bytes <= $4::bigint
) p
where p.running - octet_length(p.text) < $5::bigint
order by p.n, p.first_index`

// Live implements tasks.LiveTexts.
func (s *Store) Live(ctx context.Context, cursors []tasks.LiveCursor) ([]tasks.LivePiece, error) {
	if len(cursors) == 0 {
		return nil, nil
	}
	type item = tasks.LiveCursor
	all := indexes(len(cursors))
	rows, err := s.pool.Query(ctx, liveSQL,
		uuids(cursors, all, func(c *item) uuid.UUID { return c.TaskID }),
		column(cursors, all, func(c *item) int64 { return c.Version }),
		column(cursors, all, func(c *item) int32 { return int32(c.Index) }),
		tasks.MaxLiveText, liveBytes,
	)
	var out []tasks.LivePiece
	if err == nil {
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[tasks.LivePiece])
	}
	if err != nil {
		return nil, s.wrap(ctx, "read live texts", err)
	}
	return out, nil
}

const oldLive = `
    select l.task_id, l.assignment_version, l.first_index from live_texts l
    where l.created_at < statement_timestamp() - $1::bigint * interval '1 microsecond'
        and (select t.status = 'running' and t.assignment_version = l.assignment_version
            from reply_tasks t where t.id = l.task_id) is not true
    order by l.created_at limit $2`

const (
	countLiveSQL = `
select count(*) from (` + oldLive + `) x`
	sweepLiveSQL = `
with doomed as materialized (` + oldLive + ` for update of l skip locked
)
delete from live_texts l using doomed d
where l.task_id = d.task_id and l.assignment_version = d.assignment_version and l.first_index = d.first_index`
)

// SweepLiveTexts deletes up to limit pieces that are older and not of a running attempt, the oldest first, and returns
// how many: what a worker has left that died, or that published once more after the task's end.
func (s *Store) SweepLiveTexts(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, sweepLiveSQL, olderThan.Microseconds(), limit)
	if err != nil {
		return 0, s.wrap(ctx, "sweep live texts", err)
	}
	return int(tag.RowsAffected()), nil
}
