package consumer

import (
	"container/heap"
	"context"
	"time"

	"github.com/google/uuid"
)

// Parking: a record whose task is not due, or is leased by someone else, waits here without a worker slot. It stays
// unsettled, and its lane stays busy.

// recheck is how often tasks leased by someone else are looked up, so that a record whose task ends elsewhere is
// settled then and not only when the lease would have run out.
const recheck = 250 * time.Millisecond

// reclaim is how often such a task is claimed again at the latest: its owner may hand it back long before its lease ends.
const reclaim = 2 * time.Second

type parkingHeap []*item

func (h parkingHeap) Len() int           { return len(h) }
func (h parkingHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h parkingHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].parked, h[j].parked = i, j
}

func (h *parkingHeap) Push(x any) {
	it := x.(*item)
	it.parked = len(*h)
	*h = append(*h, it)
}

func (h *parkingHeap) Pop() any {
	old := *h
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	it.parked = -1
	return it
}

// park makes a started record wait. With c.mu held.
func (c *Consumer) park(it *item, wait time.Duration, leased bool) {
	a := it.asg
	c.vacate(it)
	if it.state == itemEnded {
		return
	}
	if it.state == itemStarted {
		a.stopped()
	}
	if a.dead || a.draining {
		// The next owner reads the record again; there is nothing to wait for here.
		it.state = itemEnded
		c.withdraw(it)
		return
	}
	it.state = itemParked
	it.leased = leased
	it.due = c.now() + int64(max(wait, time.Millisecond))
	heap.Push(&c.parking, it)
	c.parkingChanged()
}

// unpark takes the record out of the heap, if it is in it. With c.mu held.
func (c *Consumer) unpark(it *item) {
	if it.parked >= 0 {
		heap.Remove(&c.parking, it.parked)
	}
}

// dropParked forgets the parked records of an assignment that ends. With c.mu held.
func (c *Consumer) dropParked(a *assignment) {
	kept := c.parking[:0]
	for _, it := range c.parking {
		if it.asg == a {
			it.state, it.parked = itemEnded, -1
			c.withdraw(it)
			continue
		}
		it.parked = len(kept)
		kept = append(kept, it)
	}
	clear(c.parking[len(kept):])
	c.parking = kept
	heap.Init(&c.parking)
}

func (c *Consumer) parkingChanged() {
	select {
	case c.parkingWake <- struct{}{}:
	default:
	}
}

// runParking brings parked records back when they are due. It owns the parking timer.
func (c *Consumer) runParking(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		c.mu.Lock()
		wait := time.Hour
		for len(c.parking) > 0 {
			it := c.parking[0]
			if left := time.Duration(it.due - c.now()); left > 0 {
				wait = left
				break
			}
			heap.Pop(&c.parking)
			it.state = itemQueued
			it.asg.ready.push(it)
			c.makeReady(it.asg)
		}
		c.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.parkingWake:
		}
	}
}

// runRecheck settles parked records whose task someone else has ended.
func (c *Consumer) runRecheck(ctx context.Context) {
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		byTask := map[uuid.UUID][]*item{}
		c.mu.Lock()
		for _, it := range c.parking {
			if it.leased && len(byTask) < maxRecheck {
				byTask[it.ref.TaskID] = append(byTask[it.ref.TaskID], it)
			}
		}
		c.mu.Unlock()
		if len(byTask) == 0 {
			continue
		}
		ids := make([]uuid.UUID, 0, len(byTask))
		for id := range byTask {
			ids = append(ids, id)
		}
		finished, err := c.store.Finished(ctx, ids)
		if err != nil {
			continue // the lease's own end brings the record back
		}
		for _, id := range finished {
			c.wakeParked(byTask[id])
		}
	}
}

// wakeParked makes parked records due now: the claim then says what the task came to, in this workspace.
func (c *Consumer) wakeParked(items []*item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range items {
		if it.parked >= 0 {
			it.due = c.now()
			heap.Fix(&c.parking, it.parked)
		}
	}
	c.parkingChanged()
}

const maxRecheck = 1000
