package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/fencepost/fencepost/tasks"
)

const (
	knownFor   = 3 * time.Second // so a revoked key opens nothing after this
	unknownFor = time.Second     // so a new key opens after this
	maxKeys    = 10_000          // of either kind
	maxSecret  = 256             // bytes
)

// keyCache finds API keys and remembers for a few seconds what it found. The look-up is by the secret's hash, so its
// timing tells nothing about the secrets that exist.
type keyCache struct {
	keys    KeyStore
	touches *touches
	timeout time.Duration
	lookups chan struct{} // a slot for each look-up at once
	flight  singleflight.Group

	mu sync.Mutex
	// Apart, so that a flood of made-up secrets does not push out the keys of those who have one.
	known   map[[32]byte]knownKey
	unknown map[[32]byte]time.Time // until when
}

type knownKey struct {
	key   tasks.Key
	until time.Time
}

func newKeyCache(keys KeyStore, l Limits, log *slog.Logger) *keyCache {
	return &keyCache{keys: keys, touches: newTouches(keys, l.ReadTimeout, log), timeout: l.ReadTimeout, lookups: make(chan struct{}, l.MaxKeyLookups),
		known: make(map[[32]byte]knownKey), unknown: make(map[[32]byte]time.Time)}
}

// authenticate says whose request it is.
func (c *keyCache) authenticate(ctx context.Context, h http.Header) (tasks.Key, error) {
	values := h["Authorization"]
	if len(values) != 1 {
		return tasks.Key{}, unauthorized("send one header Authorization: Bearer fp_…", "Bearer")
	}
	scheme, secret, _ := strings.Cut(values[0], " ")
	secret = strings.TrimLeft(secret, " ")
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return tasks.Key{}, unauthorized("send Authorization: Bearer fp_…", "Bearer")
	}
	if len(secret) > maxSecret {
		return tasks.Key{}, badKey()
	}
	key, err := c.find(ctx, tasks.HashKey(secret))
	if errors.Is(err, tasks.ErrNotFound) {
		return tasks.Key{}, badKey()
	}
	if err == nil {
		c.touches.note(key.ID)
	}
	return key, err
}

func badKey() *problem {
	return unauthorized("this API key is not known or has been revoked", `Bearer error="invalid_token"`)
}

// permit refuses a key that is not good for the route, before anything is looked at that the caller asks for: the answer
// tells of nothing but the key.
func permit(key tasks.Key, scope tasks.Scope) error {
	if key.May(scope) {
		return nil
	}
	return forbidden(scope)
}

// find answers tasks.ErrNotFound for a key that opens nothing.
func (c *keyCache) find(ctx context.Context, hash [32]byte) (tasks.Key, error) {
	if key, known, err := c.cached(hash); known {
		return key, err
	}
	// Callers share the look-up, so none of them may cancel it.
	v, err, _ := c.flight.Do(string(hash[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
		defer cancel()
		select {
		case c.lookups <- struct{}{}:
			defer func() { <-c.lookups }()
		case <-ctx.Done():
			return tasks.Key{}, ctx.Err()
		}
		key, err := c.keys.KeyByHash(ctx, hash)
		if err == nil && key.Revoked() {
			err = tasks.ErrNotFound
		}
		c.remember(hash, key, err)
		return key, err
	})
	if err != nil {
		return tasks.Key{}, err
	}
	return v.(tasks.Key), nil
}

func (c *keyCache) cached(hash [32]byte) (key tasks.Key, known bool, err error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.known[hash]; ok && now.Before(k.until) {
		return k.key, true, nil
	}
	if until, ok := c.unknown[hash]; ok && now.Before(until) {
		return tasks.Key{}, true, tasks.ErrNotFound
	}
	return tasks.Key{}, false, nil
}

func (c *keyCache) remember(hash [32]byte, key tasks.Key, err error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		makeRoom(c.known, maxKeys, func(k knownKey) bool { return now.After(k.until) })
		delete(c.unknown, hash)
		c.known[hash] = knownKey{key: key, until: now.Add(knownFor)}
	case errors.Is(err, tasks.ErrNotFound):
		makeRoom(c.unknown, maxKeys, func(until time.Time) bool { return now.After(until) })
		delete(c.known, hash)
		c.unknown[hash] = now.Add(unknownFor)
	}
}

// makeRoom keeps m below limit: what is over goes, and if nothing is, anything goes.
func makeRoom[K comparable, V any](m map[K]V, limit int, over func(V) bool) {
	if len(m) < limit {
		return
	}
	for k, v := range m {
		if over(v) {
			delete(m, k)
		}
	}
	for k := range m {
		if len(m) < limit {
			return
		}
		delete(m, k)
	}
}
