package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// apiKeys is what a store has beside tasks.Store for API keys.
type apiKeys interface {
	CreateKey(ctx context.Context, workspace, name string, hash [32]byte, scopes ...tasks.Scope) (tasks.Key, error)
	KeyByHash(ctx context.Context, hash [32]byte) (tasks.Key, error)
	RevokeKey(ctx context.Context, id uuid.UUID) error
	TouchKeys(ctx context.Context, ids []uuid.UUID) error
}

func (k *kit) apiKeys() apiKeys {
	k.Helper()
	store, ok := k.Store.(apiKeys)
	if !ok {
		k.Fatalf("%T has no API keys", k.Store)
	}
	return store
}

func (k *kit) createKey(secret string, scopes ...tasks.Scope) tasks.Key {
	k.Helper()
	key, err := k.apiKeys().CreateKey(k.ctx, workspace, "name", tasks.HashKey(secret), scopes...)
	if err != nil {
		k.Fatalf("create key: %v", err)
	}
	return key
}

func (k *kit) keyOf(secret string) tasks.Key {
	k.Helper()
	key, err := k.apiKeys().KeyByHash(k.ctx, tasks.HashKey(secret))
	if err != nil {
		k.Fatalf("find key: %v", err)
	}
	return key
}

func (k *kit) touch(ids ...uuid.UUID) {
	k.Helper()
	if err := k.apiKeys().TouchKeys(k.ctx, ids); err != nil {
		k.Fatalf("touch keys: %v", err)
	}
}

var keyTests = []test{
	{"a_key_has_the_scopes_it_was_made_with", func(k *kit) {
		for secret, of := range map[string]struct{ named, want []tasks.Scope }{
			"all":  {nil, tasks.Scopes},
			"read": {[]tasks.Scope{tasks.ScopeRead}, []tasks.Scope{tasks.ScopeRead}},
			"two": {
				[]tasks.Scope{tasks.ScopeRead, tasks.ScopeSubmit, tasks.ScopeRead}, []tasks.Scope{tasks.ScopeSubmit, tasks.ScopeRead},
			},
		} {
			made := k.createKey(secret, of.named...)
			if err := k.apiKeys().RevokeKey(k.ctx, made.ID); err != nil {
				k.Fatalf("revoke: %v", err)
			}
			found := k.keyOf(secret)
			if !slices.Equal(made.Scopes, of.want) || !slices.Equal(found.Scopes, of.want) || !found.Revoked() || !made.UsedAt.IsZero() {
				k.Fatalf("%s: made %+v, found %+v", secret, made, found)
			}
		}
		for _, scope := range []tasks.Scope{"", "write", "READ"} {
			_, err := k.apiKeys().CreateKey(k.ctx, workspace, "name", tasks.HashKey("bad"), tasks.ScopeRead, scope)
			k.wantError(err, tasks.ErrInvalid)
		}
		_, err := k.apiKeys().KeyByHash(k.ctx, tasks.HashKey("bad"))
		k.wantError(err, tasks.ErrNotFound)
	}},
	{"the_last_use_of_a_key_is_known_to_within_a_minute", func(k *kit) {
		a, b, quiet := k.createKey("a"), k.createKey("b"), k.createKey("quiet")
		k.touch(a.ID, newID(), b.ID, a.ID)
		first := k.keyOf("a").UsedAt
		if first.Before(a.CreatedAt) || first.Location() != time.UTC || k.keyOf("b").UsedAt.IsZero() || !k.keyOf("quiet").UsedAt.IsZero() {
			k.Fatalf("used at %s (created at %s)", first, a.CreatedAt)
		}
		k.touch(a.ID) // within the minute: nothing is written
		if again := k.keyOf("a").UsedAt; !again.Equal(first) {
			k.Fatalf("used at %s, want %s still", again, first)
		}
		k.Advance(2 * time.Minute)
		before := k.keyOf("a").UsedAt // as it is stored now
		k.touch(a.ID)
		if now := k.keyOf("a").UsedAt; now.Sub(before) < 2*time.Minute || k.keyOf("quiet").UsedAt != quiet.UsedAt {
			k.Fatalf("used at %s, want 2 minutes after %s", now, before)
		}
		k.touch()
	}},
}
