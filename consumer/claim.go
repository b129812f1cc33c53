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
		b, ok := c.nextBatch(ctx, last)
		if !ok {
			return
		}
		last = time.Now()
		c.claim(ctx, b.claim, 0, &pause)
		c.claim(ctx, b.judge, b.hold, &pause)
	}
}

// claim claims the records, or, when hold is not 0, has them judged and kept back; their slots are none then.
func (c *Consumer) claim(ctx context.Context, items []*item, hold time.Duration, pause *backoff) {
	if len(items) == 0 {
		return
	}
	refs := make([]tasks.Ref, len(items))
	for i, it := range items {
		refs[i] = it.ref
	}
	slots := len(items)
	if hold > 0 {
		slots = 0
	}
	sent := time.Now()
	// Not ctx: a claim that a stop tears off would leave assignments that nobody knows of until their leases end.
	callCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	claimed, err := c.store.Claim(callCtx, tasks.Claimer{
		Worker: c.cfg.Worker, Lease: c.cfg.Lease, ParkMax: c.cfg.ParkMax, Provider: c.provider.Name(),
		Recovers: c.recoverer != nil, Hold: hold,
	}, refs)
	cancel()
	if err != nil {
		wait := pause.next()
		c.log.Warn("claim failed, trying again", "tasks", len(items), "wait", wait, "error", err)
		c.metrics.storeErrors.WithLabelValues("claim").Inc()
		c.postpone(items, slots, wait)
		sleep(ctx, wait)
		return
	}
	pause.reset()
	c.claimed(ctx, items, claimed, slots, sent)
}

// storeTimeout bounds one statement of the store, which itself bounds its waiting for locks.
const storeTimeout = 15 * time.Second

// postpone gives up the slots and brings the records back after wait.
func (c *Consumer) postpone(batch []*item, slots int, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range batch {
		c.park(it, wait, false)
	}
	c.freeSlots(slots)
}

// claimed acts on the answers of one claim, which was sent at the given time with so many slots.
func (c *Consumer) claimed(ctx context.Context, batch []*item, answers []tasks.Claimed, slots int, sent time.Time) {
	var finished, handedOff, missing []*item
	var begin []*job

	c.mu.Lock()
	for i, it := range batch {
		switch answer := answers[i]; answer.Decision {
		case tasks.DecisionClaimed:
			j := c.newJob(it, answer.Work, sent)
			j.admitted, it.admitted = it.admitted, false
			if it.asg.draining || it.asg.dead {
				// Revoked while it was being claimed. The call has not begun, so the attempt is handed back, and the
				// next owner need not wait for a lease.
				j.drop = true
			}
			begin = append(begin, j)
			continue
		case tasks.DecisionLeased:
			c.park(it, min(answer.Wait, reclaim), true)
		case tasks.DecisionNotDue:
			c.park(it, answer.Wait, false)
		case tasks.DecisionFinished:
			finished = append(finished, it)
		case tasks.DecisionHandedOff:
			handedOff = append(handedOff, it)
		default:
			missing = append(missing, it)
		}
		c.withdraw(it)
		c.vacate(it)
	}
	c.freeSlots(max(0, slots-len(begin)))
	c.mu.Unlock()
	c.begin(ctx, begin)
	c.endApart("finished", finished...)
	c.endApart("handed_off", handedOff...)
	for _, it := range missing {
		c.deadLetter(it, "unknown_task")
	}
}

// begin starts the calls of claimed tasks, and hands back those that cannot begin here.
func (c *Consumer) begin(ctx context.Context, jobs []*job) {
	start := make([]*job, 0, len(jobs))
	release := make([]*job, 0, len(jobs))
	for _, j := range jobs {
		if j.drop {
			release = append(release, j)
			continue
		}
		c.leases.add(j)
		start = append(start, j)
	}
	if !c.readHistories(ctx, start) {
		start, release = nil, jobs
	}
	for _, j := range start {
		c.metrics.queueWait.Observe(j.work.Queued.Seconds())
		c.calls.Add(1)
		go c.call(j)
	}
	for _, j := range release {
		if j.admitted {
			c.cfg.Gate.Withdraw(j.work.Workspace)
		}
		c.settle(j, tasks.Settlement{Assignment: j.work.Assignment, Outcome: tasks.OutcomeRelease})
	}
}
