package outbox

import "sync"

// acks collects what the client's promises say until the loop takes it. A promise must not wait for the loop.
type acks struct {
	mu     sync.Mutex
	list   []ack
	signal chan struct{}
}

type ack struct {
	row *row
	err error
}

func (a *acks) add(r *row, err error) {
	a.mu.Lock()
	a.list = append(a.list, ack{r, err})
	a.mu.Unlock()
	select {
	case a.signal <- struct{}{}:
	default:
	}
}

// take swaps the list for spare, which the caller has done with.
func (a *acks) take(spare []ack) []ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.list
	a.list = spare[:0]
	return list
}
