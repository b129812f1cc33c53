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
insert into api_keys (id, workspace, name, hash, created_at) values ($1, $2, $3, $4, clock_timestamp())
returning id, workspace, name, created_at, revoked_at`

// CreateKey stores a key of a workspace under the hash of its secret (tasks.HashKey). ErrInvalid when the names do not
// fit or the hash is known already.
func (s *Store) CreateKey(ctx context.Context, workspace, name string, hash [32]byte) (tasks.Key, error) {
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
	key, err := s.key(ctx, createKeySQL, id, workspace, name, hash[:])
	if badData(err) {
		err = invalid(err)
	}
	if err != nil {
		return tasks.Key{}, s.wrap(ctx, "create key", err)
	}
	return key, nil
}

const keyByHashSQL = `select id, workspace, name, created_at, revoked_at from api_keys where hash = $1`

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
select id, workspace, name, created_at, revoked_at from api_keys where workspace = $1 order by id limit 1000`
	// For operators, who see every workspace.
	listAllKeysSQL = `
select id, workspace, name, created_at, revoked_at from api_keys order by id limit 1000`
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
returning id, workspace, name, created_at, revoked_at`

// RevokeKey ends a key for good; a revoked one stays as it is. ErrNotFound.
func (s *Store) RevokeKey(ctx context.Context, id uuid.UUID) error {
	_, err := s.key(ctx, revokeKeySQL, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return tasks.ErrNotFound
	}
	return s.wrap(ctx, "revoke key", err)
}

func (s *Store) key(ctx context.Context, sql string, args ...any) (tasks.Key, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return tasks.Key{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanKey)
}

func scanKey(row pgx.CollectableRow) (k tasks.Key, err error) {
	var revoked *time.Time
	err = row.Scan(&k.ID, &k.Workspace, &k.Name, &k.CreatedAt, &revoked)
	k.CreatedAt, k.RevokedAt = k.CreatedAt.UTC(), utc(revoked)
	return k, err
}
