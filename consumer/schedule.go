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

// take returns up to n ready records as started, one of each partition in turn, so that a partition with a long
// backlog cannot keep the others from the slots. With c.mu held.
func (c *Consumer) take(n int) []*item {
	var batch []*item
	for len(batch) < n && len(c.ring) > 0 {
		a := c.ring[0]
		c.ring = c.ring[1:]
		a.queued = false
		if a.draining || a.dead {
			continue
		}
		if it := a.ready.pop(); it != nil {
			a.start(it)
			batch = append(batch, it)
		}
		if a.ready.len() > 0 {
			a.queued = true
			c.ring = append(c.ring, a)
		}
	}
	return batch
}

// nextBatch waits for ready records and a free slot, and takes both. Nil when the consumer stops.
func (c *Consumer) nextBatch(ctx context.Context, last time.Time) []*item {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for ctx.Err() == nil && (len(c.ring) == 0 || c.slots <= 0 || c.soft.Err() != nil) {
			c.work.Wait()
		}
		if ctx.Err() != nil {
			return nil
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
		batch := c.take(min(c.slots, maxBatch))
		if len(batch) > 0 {
			c.slots -= len(batch)
			return batch
		}
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
