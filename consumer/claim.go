package consumer

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

const (
	maxBatch    = 200                  // items in one statement: measured best between 50 and 200
	batchLinger = 3 * time.Millisecond // how long a batch may fill under load
	claimers    = 2                    // batches in flight: one commits while the other gathers
	settlers    = 2
)

// runClaims claims ready records in batches and starts the work of those it gets.
func (c *Consumer) runClaims(ctx context.Context) {
	var last time.Time
	pause := backoff{base: 50 * time.Millisecond, max: 2 * time.Second}
	for {
		batch := c.nextBatch(ctx, last)
		if batch == nil {
			return
		}
		last = time.Now()
		refs := make([]tasks.Ref, len(batch))
		for i, it := range batch {
			refs[i] = it.ref
		}
		// Not ctx: a claim that a stop tears off would leave assignments that nobody knows of until their leases end.
		callCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		claimed, err := c.store.Claim(callCtx, tasks.Claimer{
			Worker: c.cfg.Worker, Lease: c.cfg.Lease, ParkMax: c.cfg.ParkMax, Provider: c.provider.Name(),
		}, refs)
		cancel()
		if err != nil {
			wait := pause.next()
			c.log.Warn("claim failed, trying again", "tasks", len(batch), "wait", wait, "error", err)
			c.metrics.storeErrors.WithLabelValues("claim").Inc()
			c.postpone(batch, wait)
			sleep(ctx, wait)
			continue
		}
		pause.reset()
		c.claimed(batch, claimed, last)
	}
}

// storeTimeout bounds one statement of the store, which itself bounds its waiting for locks.
const storeTimeout = 15 * time.Second

// postpone gives up the slots and brings the records back after wait.
func (c *Consumer) postpone(batch []*item, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range batch {
		c.park(it, wait, false)
	}
	c.freeSlots(len(batch))
}

// claimed acts on the answers of one claim, which was sent at the given time.
func (c *Consumer) claimed(batch []*item, answers []tasks.Claimed, sent time.Time) {
	var finished, handedOff, missing []*item
	var begin []*job
	free := 0

	c.mu.Lock()
	for i, it := range batch {
		switch answer := answers[i]; answer.Decision {
		case tasks.DecisionClaimed:
			j := c.newJob(it, answer.Work, sent)
			if it.asg.draining || it.asg.dead {
				// Revoked while it was being claimed. The call has not begun, so the attempt is handed back, and the
				// next owner need not wait for a lease.
				j.drop = true
			}
			begin = append(begin, j)
		case tasks.DecisionLeased:
			c.park(it, min(answer.Wait, reclaim), true)
			free++
		case tasks.DecisionNotDue:
			c.park(it, answer.Wait, false)
			free++
		case tasks.DecisionFinished:
			finished = append(finished, it)
			free++
		case tasks.DecisionHandedOff:
			handedOff = append(handedOff, it)
			free++
		default:
			missing = append(missing, it)
			free++
		}
	}
	c.freeSlots(free)
	c.mu.Unlock()

	for _, j := range begin {
		if j.drop {
			c.settle(j, tasks.Settlement{Assignment: j.work.Assignment, Outcome: tasks.OutcomeRelease})
			continue
		}
		c.metrics.queueWait.Observe(j.work.Queued.Seconds())
		c.leases.add(j)
		c.calls.Add(1)
		go c.call(j)
	}
	c.endApart("finished", finished...)
	c.endApart("handed_off", handedOff...)
	for _, it := range missing {
		c.deadLetter(it, "unknown_task")
	}
}
