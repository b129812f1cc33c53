package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func TestUnauthorized(t *testing.T) {
	a := newAPI(t, nil)
	for _, header := range []string{"", "Bearer", "Bearer ", a.secret, "Basic " + a.secret, "Bearer fp_unknown", "Bearer " + a.secret + "x",
		"Bearer " + strings.Repeat("x", 10_000), "Bearer \x80"} {
		for _, path := range []string{messages, "/v1/tasks", "/v1/tasks/x"} {
			got := a.do("GET", path, "", "Authorization", header)
			got.problem(t, http.StatusUnauthorized, "unauthorized")
			if !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("WWW-Authenticate %q", got.Header.Get("WWW-Authenticate"))
			}
		}
	}
	// Before anything else is looked at.
	a.do("POST", messages, "{", "Authorization", "", "Idempotency-Key", "").problem(t, http.StatusUnauthorized, "unauthorized")
	for _, header := range []string{"bearer " + a.secret, "Bearer  " + a.secret} {
		a.do("GET", "/v1/tasks", "", "Authorization", header).want(t, http.StatusOK)
	}
}

// counted finds every hash but refuses what is in revoked.
type counted struct {
	calls   atomic.Int32
	gate    chan struct{}
	err     error
	mu      sync.Mutex
	revoked bool
}

func (c *counted) KeyByHash(ctx context.Context, hash [32]byte) (tasks.Key, error) {
	c.calls.Add(1)
	if c.gate != nil {
		select {
		case <-c.gate:
		case <-ctx.Done():
			return tasks.Key{}, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := tasks.Key{ID: uuid.UUID{1}, Workspace: "w", Scopes: tasks.Scopes}
	if c.revoked {
		k.RevokedAt = time.Now()
	}
	return k, c.err
}

func TestKeysAreRememberedForSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{}
		keys := newKeyCache(store, Limits{ReadTimeout: time.Second, MaxKeyLookups: 2}, slog.New(slog.DiscardHandler))
		hash := tasks.HashKey("fp_a")
		for range 3 {
			if k, err := keys.find(t.Context(), hash); err != nil || k.Workspace != "w" {
				t.Fatalf("%v, %v", k, err)
			}
		}
		if n := store.calls.Load(); n != 1 {
			t.Errorf("%d look-ups, want 1", n)
		}
		store.mu.Lock()
		store.revoked = true
		store.mu.Unlock()
		time.Sleep(knownFor)
		for range 3 {
			if _, err := keys.find(t.Context(), hash); !errors.Is(err, tasks.ErrNotFound) {
				t.Fatalf("a revoked key: %v", err)
			}
		}
		if n := store.calls.Load(); n != 2 {
			t.Errorf("%d look-ups, want 2", n)
		}
		store.mu.Lock()
		store.revoked = false
		store.mu.Unlock()
		time.Sleep(unknownFor)
		if _, err := keys.find(t.Context(), hash); err != nil {
			t.Errorf("a key that has come to be: %v", err)
		}
	})
}

func TestCallersShareALookUpThatNoneCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{gate: make(chan struct{})}
		keys := newKeyCache(store, Limits{ReadTimeout: time.Minute, MaxKeyLookups: 2}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 10)
		for range cap(errs) {
			go func() {
				_, err := keys.find(ctx, tasks.HashKey("fp_a"))
				errs <- err
			}()
		}
		synctest.Wait()
		cancel()
		close(store.gate)
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if n := store.calls.Load(); n != 1 {
			t.Errorf("%d look-ups, want 1", n)
		}
	})
}

func TestFailedLookUpIsNotRemembered(t *testing.T) {
	store := &counted{err: fmt.Errorf("%w: no route", tasks.ErrUnavailable)}
	a := newAPI(t, func(c *Config) { c.Keys = store })
	got := a.do("GET", "/v1/tasks", "")
	got.problem(t, http.StatusServiceUnavailable, "overloaded")
	if got.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	store.mu.Lock()
	store.err = nil
	store.mu.Unlock()
	a.do("GET", "/v1/tasks", "").want(t, http.StatusOK)
}

func TestFloodOfUnknownKeysIsBoundedAndKeepsTheKnown(t *testing.T) {
	keys := newKeyCache(&counted{}, Limits{MaxKeyLookups: 1, ReadTimeout: time.Second}, slog.New(slog.DiscardHandler))
	known := tasks.HashKey("fp_a")
	if _, err := keys.find(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	for i := range 2*maxKeys + 1 {
		keys.remember(tasks.HashKey(fmt.Sprint(i)), tasks.Key{}, tasks.ErrNotFound)
	}
	if len(keys.unknown) > maxKeys {
		t.Errorf("%d unknown keys are remembered, want at most %d", len(keys.unknown), maxKeys)
	}
	if _, ok, err := keys.cached(known); !ok || err != nil {
		t.Errorf("the known key is forgotten")
	}
}
