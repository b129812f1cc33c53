package httpapi

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// KeyToucher notes when keys were last used. A KeyStore that is one is told.
type KeyToucher interface {
	TouchKeys(ctx context.Context, ids []uuid.UUID) error
}

// touchEvery is how often the keys that were used are told to the store, all at once.
const touchEvery = 30 * time.Second

// touches gathers the keys that were used.
type touches struct {
	keys    KeyToucher // nil: nobody wants to know
	timeout time.Duration
	log     *slog.Logger

	mu   sync.Mutex
	used map[uuid.UUID]struct{}
}

func newTouches(keys KeyStore, timeout time.Duration, log *slog.Logger) *touches {
	toucher, _ := keys.(KeyToucher)
	return &touches{keys: toucher, timeout: timeout, log: log, used: make(map[uuid.UUID]struct{})}
}

func (t *touches) note(id uuid.UUID) {
	if t.keys == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.used) < maxKeys {
		t.used[id] = struct{}{}
	}
}

// run tells the store until ctx is done, and once more then.
func (t *touches) run(ctx context.Context) {
	if t.keys == nil {
		return
	}
	for sleep(ctx, touchEvery, nil) {
		t.flush(ctx)
	}
	t.flush(context.WithoutCancel(ctx))
}

func (t *touches) flush(ctx context.Context) {
	t.mu.Lock()
	ids := slices.Collect(maps.Keys(t.used))
	clear(t.used)
	t.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	if err := t.keys.TouchKeys(ctx, ids); err != nil {
		t.log.Warn("when keys were last used could not be noted", "keys", len(ids), "error", err)
		for _, id := range ids {
			t.note(id)
		}
	}
}
