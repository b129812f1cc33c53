package consumer

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spaces the tries of one loop: doubling, with half of it at random so that workers do not try in step.
type backoff struct {
	base, max time.Duration
	n         int
}

func (b *backoff) next() time.Duration {
	wait := b.base
	for i := 0; i < b.n && wait < b.max; i++ {
		wait *= 2
	}
	wait = min(wait, b.max)
	b.n++
	return wait/2 + rand.N(wait/2+1)
}

func (b *backoff) reset() { b.n = 0 }

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
