package consumer

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// pending waits for its batch: a settle, or, with no job, a record that ended apart.
type pending struct {
	job        *job
	settlement tasks.Settlement

	item    *item
	outcome string
}

// settleQueue is what waits for its batch. There are two, so that settles whose rows somebody holds wait for them apart
// and not before all others. Guarded by settleMu.
type settleQueue struct {
	pending []pending
	closed  bool
}

// settle hands in the end of an assignment. It never blocks: what waits is bounded by the slots.
func (c *Consumer) settle(j *job, s tasks.Settlement) {
	c.leases.settling(j)
	c.queueSettles(&c.fresh, pending{job: j, settlement: s})
}

func (c *Consumer) queueSettles(q *settleQueue, items ...pending) {
	c.settleMu.Lock()
	q.pending = append(q.pending, items...)
	c.settleMu.Unlock()
	c.settleWork.Broadcast()
}

func (c *Consumer) closeSettles(q *settleQueue) {
	c.settleMu.Lock()
	q.closed = true
	c.settleMu.Unlock()
	c.settleWork.Broadcast()
}

// runSettles settles in batches until q is closed and nothing is pending.
func (c *Consumer) runSettles(q *settleQueue) {
	var last time.Time
	for {
		batch, ok := c.nextSettles(q, last)
		if !ok {
			return
		}
		last = time.Now()
		c.settleBatch(batch)
	}
}

// nextSettles waits for a batch, which may be empty when another settler was quicker. False: stopped.
func (c *Consumer) nextSettles(q *settleQueue, last time.Time) ([]pending, bool) {
	c.settleMu.Lock()
	defer c.settleMu.Unlock()
	for len(q.pending) == 0 {
		if q.closed {
			return nil, false
		}
		c.settleWork.Wait()
	}
	if wait := batchLinger - time.Since(last); wait > 0 && len(q.pending) < maxBatch {
		c.settleMu.Unlock()
		time.Sleep(wait)
		c.settleMu.Lock()
	}
	n := min(len(q.pending), maxBatch)
	batch := append([]pending(nil), q.pending[:n]...)
	rest := copy(q.pending, q.pending[n:])
	clear(q.pending[rest:])
	q.pending = q.pending[:rest]
	if rest > 0 {
		c.settleWork.Broadcast()
	}
	return batch, true
}

// settleBatch settles until the store answers: an answer that is paid for is not dropped because a connection was.
// The store recognises a repeat of what it had accepted.
func (c *Consumer) settleBatch(all []pending) {
	batch := make([]pending, 0, len(all))
	var apart []pending
	for _, p := range all {
		if p.job == nil {
			apart = append(apart, p)
			continue
		}
		batch = append(batch, p)
	}
	if len(apart) > 0 {
		c.settlePlaces(apart)
	}
	if len(batch) == 0 {
		return
	}
	items := make([]tasks.Settlement, len(batch))
	for i := range batch {
		items[i] = batch[i].settlement
	}
	pause := backoff{base: 50 * time.Millisecond, max: 2 * time.Second}
	for {
		ctx, cancel := context.WithTimeout(c.hard, storeTimeout)
		settled, err := c.store.Settle(ctx, items)
		cancel()
		if err == nil {
			c.settled(batch, settled)
			return
		}
		c.metrics.storeErrors.WithLabelValues("settle").Inc()
		if c.hard.Err() != nil {
			c.log.Error("stopped with unsettled answers; their tasks go on when the leases end", "tasks", len(batch), "error", err)
			c.abandon(batch)
			return
		}
		wait := pause.next()
		c.log.Warn("settle failed, trying again", "tasks", len(batch), "wait", wait, "error", err)
		sleep(c.hard, wait)
	}
}

// abandon lets go of jobs whose end could not be stored.
func (c *Consumer) abandon(batch []pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range batch {
		c.leases.remove(p.job)
		p.job.over = true
		p.job.cancel(errStopped)
		p.job.traceAbandoned()
		if p.job.stray {
			continue
		}
		c.freeSlots(1)
		c.vacate(p.job.it)
		if it := p.job.it; it.state == itemStarted {
			it.state = itemEnded
			it.asg.stopped()
		}
	}
}

// settled acts on the verdicts of one batch.
func (c *Consumer) settled(batch []pending, verdicts []tasks.Settled) {
	var done, handedOff, fenced []*item
	var again, held []pending
	finished := false
	free := 0
	c.mu.Lock()
	for i, p := range batch {
		s, v := p.settlement, verdicts[i]
		if v.Verdict == tasks.VerdictHeld {
			held = append(held, p)
			continue
		}
		if v.Verdict == tasks.VerdictInvalid {
			// What the provider returned cannot be stored: that is this attempt's failure.
			c.log.Error("the outcome of an attempt cannot be stored", "task", s.TaskID, "outcome", s.Outcome, "error", v.Err)
			p.settlement.Candidate = tasks.Candidate{}
			p.settlement.Failure = tasks.Failure{Class: string(llm.RejectedOutput), Message: "the answer cannot be stored"}
			if s.Outcome == tasks.OutcomeComplete {
				p.settlement.Outcome = tasks.OutcomeFail
				again = append(again, p)
				continue
			}
		}
		c.leases.remove(p.job)
		p.job.over = true
		p.job.cancel(nil)
		c.liveEnded(p.job)
		c.countVerdict(p, v)
		p.job.traceSettled(s, v)
		finished = finished || v.Status.Terminal()
		if v.Fenced {
			fenced = append(fenced, p.job.it)
		}
		switch {
		case p.job.stray: // the record went on without it
		case v.Ended():
			done = append(done, p.job.it)
		case v.Verdict == tasks.VerdictAccepted && s.Outcome == tasks.OutcomeRetry && s.Handoff:
			handedOff = append(handedOff, p.job.it)
		case v.Verdict == tasks.VerdictAccepted && s.Outcome == tasks.OutcomeRetry:
			c.park(p.job.it, s.RetryAfter, false)
			free++
		default:
			// Released, or someone else's now: claiming it again says what it comes to.
			c.park(p.job.it, time.Millisecond, false)
			free++
		}
	}
	c.freeSlots(free)
	c.mu.Unlock()
	for _, it := range fenced {
		c.fenced(it)
	}
	if len(done) > 0 {
		c.ended("settled", len(done), done...)
	}
	if len(handedOff) > 0 {
		c.ended("handed_off", len(handedOff), handedOff...)
	}
	if finished {
		c.cfg.OnFinished()
	}
	if len(held) > 0 {
		c.queueSettles(&c.held, held...)
	}
	if len(again) > 0 {
		c.settleBatch(again)
	}
}

func (c *Consumer) countVerdict(p pending, v tasks.Settled) {
	if v.Verdict == tasks.VerdictAccepted {
		c.metrics.transitions.WithLabelValues(string(tasks.StatusRunning), string(v.Status)).Inc()
		if p.settlement.Outcome == tasks.OutcomeComplete {
			w := p.job.work
			c.metrics.endToEnd.Observe(w.Queued.Seconds() + time.Duration(c.now()-p.job.claimedAt).Seconds())
		}
		return
	}
	c.metrics.staleSettles.Inc()
	c.log.Warn("settle refused", "task", p.settlement.TaskID, "version", p.settlement.Version,
		"outcome", p.settlement.Outcome, "verdict", v.Verdict, "status", v.Status)
}
