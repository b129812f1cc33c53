package consumer

import (
	"context"
	"time"
)

// Scheduling: which ready record is claimed next. One mutex guards everything in memory (assignments, trackers, lanes,
// the ring, slots, the parking heap); it is held for microseconds and never across I/O. See doc.go for who runs what.

// makeReady puts a's turn into the ring. With c.mu held.
func (c *Consumer) makeReady(a *assignment) {
	if a.ready.len() == 0 || a.draining || a.dead {
		return
	}
	if !a.queued {
		a.queued = true
		c.ring = append(c.ring, a)
	}
	c.work.Signal()
}

// batch is what is taken at once.
type batch struct {
	claim []*item       // with a slot each
	judge []*item       // kept back by the gate, without a slot: looked at in the store, and not claimed
	hold  time.Duration // for how long they are kept back
}

// takeMost bounds how many records one take looks at, since the gate may keep back all of a long queue.
const takeMost = 1000

// take returns up to n ready records as started, one of each partition in turn, so that a partition with a long
// backlog cannot keep the others from the slots. With c.mu held.
func (c *Consumer) take(n int) (b batch) {
	for range takeMost {
		if len(b.claim) >= n || len(b.judge) >= maxBatch || len(c.ring) == 0 {
			break
		}
		a := c.ring[0]
		c.ring = c.ring[1:]
		a.queued = false
		if a.draining || a.dead {
			continue
		}
		it := a.ready.pop(c.fullWorkspace)
		if it == nil && a.ready.len() > 0 {
			if !a.stalled { // every workspace in it is full: it waits for a slot to be given back
				a.stalled = true
				c.stalled = append(c.stalled, a)
			}
			continue
		}
		if it != nil {
			switch ok, hold := c.admit(it); {
			case ok:
				a.start(it)
				c.occupy(it)
				b.claim = append(b.claim, it)
			case hold > 0:
				a.start(it)
				b.judge = append(b.judge, it)
				b.hold = hold
			}
		}
		if a.ready.len() > 0 {
			a.queued = true
			c.ring = append(c.ring, a)
		}
	}
	return b
}

// nextBatch waits for ready records and a free slot, and takes both. False when the consumer stops.
func (c *Consumer) nextBatch(ctx context.Context, last time.Time) (batch, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for ctx.Err() == nil && (len(c.ring) == 0 || c.slots <= 0 || c.soft.Err() != nil) {
			c.work.Wait()
		}
		if ctx.Err() != nil {
			return batch{}, false
		}
		// A record alone is claimed at once; under load the batch is left to fill for some milliseconds, since a claim
		// of many costs hardly more than a claim of one.
		if wait := batchLinger - time.Since(last); wait > 0 && !c.batchFull() {
			c.mu.Unlock()
			time.Sleep(wait)
			c.mu.Lock()
			last = time.Time{}
			continue
		}
		b := c.take(min(c.slots, maxBatch))
		if len(b.claim)+len(b.judge) > 0 {
			c.slots -= len(b.claim)
			return b, true
		}
		c.mu.Unlock() // the gate may keep back many more: others get their turn
		c.mu.Lock()
	}
}

func (c *Consumer) batchFull() bool {
	ready := 0
	for _, a := range c.ring {
		if ready += a.ready.len(); ready >= maxBatch {
			return true
		}
	}
	return ready >= c.slots
}

// ended settles the records, frees what waited for them and says so to the metrics. Without c.mu held.
func (c *Consumer) ended(outcome string, slots int, items ...*item) {
	c.metrics.records.WithLabelValues(outcome).Add(float64(len(items)))
	var resume []*assignment
	c.mu.Lock()
	c.freeSlots(slots)
	for _, it := range items {
		a := it.asg
		c.unpark(it)
		a.end(it)
		c.vacate(it)
		c.makeReady(a)
		if a.paused && !a.dead && a.roomy(c.cfg) {
			resume = append(resume, a)
		}
	}
	c.mu.Unlock()
	for _, a := range resume {
		c.adjustFetching(a)
	}
	if c.finished.Add(int64(len(items))) >= commitEarly {
		c.commitSoon()
	}
}

// freeSlots gives back n slots. With c.mu held.
func (c *Consumer) freeSlots(n int) {
	if n > 0 {
		c.slots += n
		c.work.Broadcast()
	}
}

// fullWorkspace reports whether a workspace has as many calls as it may. With c.mu held.
func (c *Consumer) fullWorkspace(workspace string) bool {
	most := c.cfg.MaxInFlightPerWorkspace
	return most > 0 && c.occupied[workspace] >= most
}

// occupy and vacate count the slots of each workspace, where they are bounded. With c.mu held.
func (c *Consumer) occupy(it *item) {
	if c.cfg.MaxInFlightPerWorkspace > 0 {
		it.occupies = true
		c.occupied[it.ref.Workspace]++
	}
}

func (c *Consumer) vacate(it *item) {
	if !it.occupies {
		return
	}
	it.occupies = false
	if c.occupied[it.ref.Workspace]--; c.occupied[it.ref.Workspace] == 0 {
		delete(c.occupied, it.ref.Workspace)
	}
	stalled := c.stalled
	c.stalled = nil
	for _, a := range stalled {
		a.stalled = false
		c.makeReady(a)
	}
}
