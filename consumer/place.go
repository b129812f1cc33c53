package consumer

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/offsets"
	"github.com/fencepost/fencepost/tasks"
)

// Places: where positions are kept with the replies, a record's settle stores its place in the same transaction. What
// ends without a settle (its task was finished already, it was handed off by the claim, dead-lettered) is stored here,
// before the tracker moves, so that the group's commit only ever follows.

// place is what the record accounts for, zero when positions are kept in the group's commits alone.
func (it *item) place() tasks.Place {
	o := it.asg.owner
	if o.Epoch == 0 {
		return tasks.Place{}
	}
	return tasks.Place{Group: o.Group, TopicID: uuid.UUID(o.TopicID), Partition: o.Partition, Epoch: o.Epoch, From: it.from, To: it.offset + 1}
}

// endApart ends records that have no settle of their own. They hold no slots.
func (c *Consumer) endApart(outcome string, items ...*item) {
	if len(items) == 0 {
		return
	}
	if c.cfg.Owners == nil {
		c.ended(outcome, 0, items...)
		return
	}
	places := make([]pending, len(items))
	for i, it := range items {
		places[i] = pending{item: it, outcome: outcome}
	}
	c.queueSettles(&c.fresh, places...)
}

// settlePlaces stores the places of records that ended apart, and ends them. Tried for as long as the consumer runs.
func (c *Consumer) settlePlaces(batch []pending) {
	places := make([]offsets.Place, len(batch))
	for i, p := range batch {
		places[i] = offsets.Place{Owner: p.item.asg.owner, Run: offsets.Run{From: p.item.from, To: p.item.offset + 1}}
	}
	pause := backoff{base: 50 * time.Millisecond, max: 2 * time.Second}
	for {
		ctx, cancel := context.WithTimeout(c.hard, storeTimeout)
		kept, err := c.cfg.Owners.Settle(ctx, places)
		cancel()
		if err == nil {
			byOutcome := map[string][]*item{}
			for i, p := range batch {
				if !kept[i] {
					c.fenced(p.item)
				}
				byOutcome[p.outcome] = append(byOutcome[p.outcome], p.item)
			}
			for outcome, items := range byOutcome {
				c.ended(outcome, 0, items...)
			}
			return
		}
		c.metrics.storeErrors.WithLabelValues("place").Inc()
		if c.hard.Err() != nil {
			c.abandonItems(batch)
			return
		}
		wait := pause.next()
		c.log.Warn("positions cannot be stored, trying again", "records", len(batch), "wait", wait, "error", err)
		sleep(c.hard, wait)
	}
}

// abandonItems lets go of records whose place could not be stored: they are read again.
func (c *Consumer) abandonItems(batch []pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range batch {
		if p.item.state == itemStarted {
			p.item.state = itemEnded
			p.item.asg.stopped()
		}
	}
}

// fenced acts on a refused place. For an assignment that has ended it is what is to be expected: its successor owns the
// partition. A living one has lost the partition without being told. Without c.mu held.
func (c *Consumer) fenced(it *item) {
	c.metrics.fencedPlaces.Inc()
	c.mu.Lock()
	alive := !it.asg.dead && !it.asg.draining
	c.mu.Unlock()
	if alive {
		c.log.Error("another worker owns the partition", "topic", it.asg.topic, "partition", it.asg.partition, "offset", it.offset)
		it.asg.session.end(errFenced)
	}
}
