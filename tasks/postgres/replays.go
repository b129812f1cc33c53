package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

const openReplaySQL = `
select id, kind, scope, actor, reason, plan, cursor, rearmed, skipped, started_at from replays where scope = $1 and done_at is null`

// OpenReplay implements tasks.Rearmer.
func (s *Store) OpenReplay(ctx context.Context, scope string) (tasks.Replay, error) {
	var r tasks.Replay
	err := s.pool.QueryRow(ctx, openReplaySQL, scope).Scan(&r.ID, &r.Kind, &r.Scope, &r.Actor, &r.Reason, &r.Plan, &r.Cursor,
		&r.Rearmed, &r.Skipped, &r.StartedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, tasks.ErrNotFound
	}
	r.StartedAt = r.StartedAt.UTC()
	return r, s.wrap(ctx, "read replay", err)
}

const beginReplaySQL = `
insert into replays (id, kind, scope, actor, reason, plan, cursor, started_at, updated_at)
values ($1, $2, $3, $4, $5, $6, $7, clock_timestamp(), clock_timestamp())
on conflict (scope) where done_at is null do nothing`

// BeginReplay implements tasks.Rearmer.
func (s *Store) BeginReplay(ctx context.Context, r tasks.Replay) (tasks.Replay, error) {
	_, err := s.pool.Exec(ctx, beginReplaySQL, r.ID, r.Kind, r.Scope, tasks.Clean(r.Actor), tasks.Clean(r.Reason), r.Plan, r.Cursor)
	if err != nil {
		return tasks.Replay{}, s.wrap(ctx, "begin replay", err)
	}
	return s.OpenReplay(ctx, r.Scope)
}

const endReplaySQL = `update replays set done_at = clock_timestamp(), updated_at = clock_timestamp() where id = $1 and done_at is null`

// EndReplay implements tasks.Rearmer.
func (s *Store) EndReplay(ctx context.Context, id uuid.UUID) error {
	_, err := s.pool.Exec(ctx, endReplaySQL, id)
	return s.wrap(ctx, "end replay", err)
}
