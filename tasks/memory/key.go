package memory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// CreateKey stores a key under the hash of its secret (tasks.HashKey).
func (s *Store) CreateKey(ctx context.Context, workspace, name string, hash [32]byte) (tasks.Key, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return tasks.Key{}, err
	}
	k := tasks.Key{ID: id, Workspace: workspace, Name: name}
	err = s.transact(ctx, "CreateKey", func(now time.Time) {
		k.CreatedAt = now
		stored := k
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
