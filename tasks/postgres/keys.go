package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

const createKeySQL = `
insert into api_keys (id, workspace, name, hash, scopes, created_at) values ($1, $2, $3, $4, $5, clock_timestamp())
returning id, workspace, name, created_at, revoked_at, scopes, last_used_at`

// CreateKey stores a key of a workspace under the hash of its secret (tasks.HashKey), good for the scopes, or for every
// one when none is named. ErrInvalid when the names do not fit, a scope is none or the hash is known already.
func (s *Store) CreateKey(ctx context.Context, workspace, name string, hash [32]byte, scopes ...tasks.Scope) (tasks.Key, error) {
	scopes, err := tasks.CheckScopes(scopes)
	if err != nil {
		return tasks.Key{}, err
	}
	switch {
	case workspace == "" || len(workspace) > tasks.MaxName || tasks.Clean(workspace) != workspace:
		return tasks.Key{}, fmt.Errorf("%w: a workspace's name has 1 to %d bytes of UTF-8", tasks.ErrInvalid, tasks.MaxName)
	case len(name) > tasks.MaxName || tasks.Clean(name) != name:
		return tasks.Key{}, fmt.Errorf("%w: a key's name has up to %d bytes of UTF-8", tasks.ErrInvalid, tasks.MaxName)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return tasks.Key{}, fmt.Errorf("create key: %w", err)
	}
	key, err := s.key(ctx, createKeySQL, id, workspace, name, hash[:], scopes)
	if badData(err) {
		err = invalid(err)
	}
	if err != nil {
		return tasks.Key{}, s.wrap(ctx, "create key", err)
	}
	return key, nil
}

const keyByHashSQL = `select id, workspace, name, created_at, revoked_at, scopes, last_used_at from api_keys where hash = $1`

// KeyByHash finds a key by the hash of its secret, also a revoked one. ErrNotFound.
func (s *Store) KeyByHash(ctx context.Context, hash [32]byte) (tasks.Key, error) {
	key, err := s.key(ctx, keyByHashSQL, hash[:])
	if errors.Is(err, pgx.ErrNoRows) {
		return tasks.Key{}, tasks.ErrNotFound
	}
	if err != nil {
		return tasks.Key{}, s.wrap(ctx, "find key", err)
	}
	return key, nil
}

const (
	listKeysSQL = `
select id, workspace, name, created_at, revoked_at, scopes, last_used_at from api_keys where workspace = $1 order by id limit 1000`
	// For operators, who see every workspace.
	listAllKeysSQL = `
select id, workspace, name, created_at, revoked_at, scopes, last_used_at from api_keys order by id limit 1000`
)

// ListKeys reads the keys of a workspace, or of all when it is empty, oldest first, at most 1000.
func (s *Store) ListKeys(ctx context.Context, name string) ([]tasks.Key, error) {
	sql, args := listAllKeysSQL, []any(nil)
	if name != "" {
		sql, args = listKeysSQL, []any{workspace(name)}
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, s.wrap(ctx, "list keys", err)
	}
	keys, err := pgx.CollectRows(rows, scanKey)
	if err != nil {
		return nil, s.wrap(ctx, "list keys", err)
	}
	return keys, nil
}

const revokeKeySQL = `
update api_keys set revoked_at = coalesce(revoked_at, clock_timestamp()) where id = $1
returning id, workspace, name, created_at, revoked_at, scopes, last_used_at`

// RevokeKey ends a key for good; a revoked one stays as it is. ErrNotFound.
func (s *Store) RevokeKey(ctx context.Context, id uuid.UUID) error {
	_, err := s.key(ctx, revokeKeySQL, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return tasks.ErrNotFound
	}
	return s.wrap(ctx, "revoke key", err)
}

// Processes that touch one key at once do not wait for each other: one of them is enough.
const touchKeysSQL = `
with used as materialized (
    select id from api_keys
    where id = any($1::uuid[]) and (last_used_at is null or last_used_at < clock_timestamp() - interval '1 minute')
    order by id for no key update skip locked
)
update api_keys k set last_used_at = clock_timestamp() from used u where k.id = u.id`

// TouchKeys notes that keys are used now, where that was noted longer than a minute ago. Unknown ones are left out.
func (s *Store) TouchKeys(ctx context.Context, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := s.pool.Exec(ctx, touchKeysSQL, uuidArray(ids))
	return s.wrap(ctx, "touch keys", err)
}

func (s *Store) key(ctx context.Context, sql string, args ...any) (tasks.Key, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return tasks.Key{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanKey)
}

func scanKey(row pgx.CollectableRow) (k tasks.Key, err error) {
	var revoked, used *time.Time
	err = row.Scan(&k.ID, &k.Workspace, &k.Name, &k.CreatedAt, &revoked, &k.Scopes, &used)
	k.CreatedAt, k.RevokedAt, k.UsedAt = k.CreatedAt.UTC(), utc(revoked), utc(used)
	return k, err
}
