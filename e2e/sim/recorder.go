package sim

import (
	"maps"
	"sync"
	"time"

	"github.com/fencepost/fencepost/e2e/history"
)

// recorder keeps what is seen, in the order in which it is. It is the observer's clock and pen, outside of every process.
type recorder struct {
	mu     sync.Mutex
	began  time.Time
	last   int64
	events []history.Event
	counts map[string]int
}

func newRecorder() *recorder { return &recorder{began: time.Now(), counts: map[string]int{}} }

func (r *recorder) since() time.Duration { return time.Since(r.began) }

// ids draws n ids for the events of n operations.
func (r *recorder) ids(n int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.last + 1
	r.last += int64(n)
	return first
}

// add notes events of now.
func (r *recorder) add(events ...history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		e.T = r.since()
		r.events = append(r.events, e)
	}
}

// addThen notes an event of another time, as it was found out later.
func (r *recorder) addThen(e history.Event) {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
}

// count notes that something that should happen now and then has happened.
func (r *recorder) count(what string) {
	r.mu.Lock()
	r.counts[what]++
	r.mu.Unlock()
}

func (r *recorder) result() ([]history.Event, map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]history.Event(nil), r.events...), maps.Clone(r.counts)
}
