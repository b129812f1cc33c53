package httpapi

import (
	"sync"
	"time"
)

// maxWorkspaces bounds what is remembered of workspaces; only those that have a key come here.
const maxWorkspaces = 10_000

// rates bounds how many submissions of a workspace this process takes in a minute: that many at once, and one more each
// time its share of a minute has passed. A submission that turns out to be a repeat is given back.
type rates struct {
	perMinute int // 0: there is no bound

	mu sync.Mutex
	// paid is until when a workspace has used its shares. One that lies in the past is as good as none.
	paid map[string]time.Time
}

func newRates(perMinute int) *rates {
	return &rates{perMinute: perMinute, paid: make(map[string]time.Time)}
}

// take uses one share, or says how long it takes until there is one.
func (r *rates) take(workspace string) (wait time.Duration) {
	if r.perMinute == 0 {
		return 0
	}
	now, share := time.Now(), r.share()
	r.mu.Lock()
	defer r.mu.Unlock()
	paid, ok := r.paid[workspace]
	if !ok {
		makeRoom(r.paid, maxWorkspaces, now.After)
	}
	if paid.Before(now) {
		paid = now
	}
	// All shares together may last a minute.
	if wait = paid.Add(share).Sub(now) - time.Minute; wait > 0 {
		return wait
	}
	r.paid[workspace] = paid.Add(share)
	return 0
}

// giveBack undoes a take.
func (r *rates) giveBack(workspace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if paid, ok := r.paid[workspace]; ok {
		r.paid[workspace] = paid.Add(-r.share())
	}
}

func (r *rates) share() time.Duration { return time.Minute / time.Duration(max(1, r.perMinute)) }
