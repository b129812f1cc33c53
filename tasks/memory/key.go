package memory

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// CreateKey stores a key under the hash of its secret (tasks.HashKey), good for the scopes, or for every one when none is
// named. tasks.ErrInvalid.
func (s *Store) CreateKey(ctx context.Context, workspace, name string, hash [32]byte, scopes ...tasks.Scope) (tasks.Key, error) {
	scopes, err := tasks.CheckScopes(scopes)
	if err != nil {
		return tasks.Key{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return tasks.Key{}, err
	}
	k := tasks.Key{ID: id, Workspace: workspace, Name: name, Scopes: scopes}
	err = s.transact(ctx, "CreateKey", func(now time.Time) {
		k.CreatedAt = now
		stored := k
		stored.Scopes = slices.Clone(k.Scopes)
		s.apiKeys[hash] = &stored
	})
	return k, err
}

// KeyByHash finds a key by the hash of its secret, also a revoked one. tasks.ErrNotFound.
func (s *Store) KeyByHash(ctx context.Context, hash [32]byte) (tasks.Key, error) {
	var k tasks.Key
	found := tasks.ErrNotFound
	err := s.transact(ctx, "KeyByHash", func(time.Time) {
		if stored := s.apiKeys[hash]; stored != nil {
			k, found = *stored, nil
			k.Scopes = slices.Clone(stored.Scopes)
		}
	})
	if err == nil {
		err = found
	}
	return k, err
}

// RevokeKey ends a key for good; a revoked one stays as it is. tasks.ErrNotFound.
func (s *Store) RevokeKey(ctx context.Context, id uuid.UUID) error {
	found := tasks.ErrNotFound
	err := s.transact(ctx, "RevokeKey", func(now time.Time) {
		for _, k := range s.apiKeys {
			if k.ID != id {
				continue
			}
			if found = nil; !k.Revoked() {
				k.RevokedAt = now
			}
		}
	})
	if err == nil {
		err = found
	}
	return err
}

// TouchKeys notes that keys are used now, where that was noted longer than a minute ago. Unknown ones are left out.
func (s *Store) TouchKeys(ctx context.Context, ids []uuid.UUID) error {
	return s.transact(ctx, "TouchKeys", func(now time.Time) {
		for _, k := range s.apiKeys {
			if slices.Contains(ids, k.ID) && k.UsedAt.Before(now.Add(-time.Minute)) {
				k.UsedAt = now
			}
		}
	})
}
