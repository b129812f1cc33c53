package consumer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// leases renews the assignments of all jobs in one statement, and cancels those that are lost.
type leases struct {
	mu   sync.Mutex
	jobs map[*job]struct{}
}

func (l *leases) add(j *job) {
	l.mu.Lock()
	l.jobs[j] = struct{}{}
	l.mu.Unlock()
}

func (l *leases) remove(j *job) {
	l.mu.Lock()
	delete(l.jobs, j)
	l.mu.Unlock()
}

// settling marks that the settle decides from here on. The lease is still renewed: while the store is away the answer
// waits, and should be accepted when it is back.
func (l *leases) settling(j *job) {
	l.mu.Lock()
	j.settling = true
	l.mu.Unlock()
}

func (l *leases) list() []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	jobs := make([]*job, 0, len(l.jobs))
	for j := range l.jobs {
		jobs = append(jobs, j)
	}
	return jobs
}

// maxRenewals is how many leases one statement renews.
const maxRenewals = 1000

// runRenewals renews every quarter of a lease until ctx is done. It is a goroutine with a statement of its own, so that
// neither calls nor batches can starve it.
func (c *Consumer) runRenewals(ctx context.Context) {
	tick := time.NewTicker(c.cfg.Lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		jobs := c.leases.list()
		for len(jobs) > 0 {
			n := min(len(jobs), maxRenewals)
			c.renew(ctx, jobs[:n])
			jobs = jobs[n:]
		}
		c.dropExpired()
	}
}

func (c *Consumer) renew(ctx context.Context, jobs []*job) {
	items := make([]tasks.Assignment, len(jobs))
	for i, j := range jobs {
		items[i] = j.work.Assignment
	}
	// The clock of a lease starts when its renewal is sent: the database's starts later.
	sent := c.now()
	callCtx, cancel := context.WithTimeout(ctx, c.cfg.Lease/4)
	kept, err := c.store.Renew(callCtx, c.cfg.Lease, items)
	cancel()
	if err != nil {
		c.metrics.storeErrors.WithLabelValues("renew").Inc()
		c.log.Warn("lease renewal failed, trying again", "tasks", len(jobs), "error", err)
		return
	}
	var lost []*job
	c.leases.mu.Lock()
	for i, j := range jobs {
		switch {
		case kept[i] == tasks.RenewalKept:
			j.renewed = sent
		case kept[i] == tasks.RenewalLost && !j.settling:
			lost = append(lost, j)
		}
	}
	c.leases.mu.Unlock()
	c.lose(ctx, lost)
}

// lose cancels the calls of lost assignments, and says whether anybody goes on with their tasks: what runs at the
// provider for a task that is over is stopped there, too.
func (c *Consumer) lose(ctx context.Context, lost []*job) {
	if len(lost) == 0 {
		return
	}
	ids := make([]uuid.UUID, len(lost))
	for i, j := range lost {
		ids[i] = j.work.TaskID
	}
	storeCtx, cancel := context.WithTimeout(ctx, c.cfg.Lease/4)
	over, err := c.store.Finished(storeCtx, ids)
	cancel()
	if err != nil {
		c.log.Debug("what became of lost assignments is not known", "tasks", len(lost), "error", err)
	}
	for _, j := range lost {
		cause := errLeaseLost
		if slices.Contains(over, j.work.TaskID) {
			cause = errTaskOver
		}
		j.cancel(cause)
	}
}

// dropExpired is the watchdog for a store that does not answer: a job whose lease must have run out stops its call,
// since its answer could not be accepted and someone else may already be paying for another.
//
// It is the watchdog for calls, too: one that has not returned a lease after it was told to is given up. Its lease is
// renewed no more, so that the task can be taken over, and its record goes on; a partition must not be held up for ever
// by a call that never ends.
func (c *Consumer) dropExpired() {
	var stray []*job
	c.leases.mu.Lock()
	now := c.now()
	for j := range c.leases.jobs {
		if j.settling {
			continue
		}
		if time.Duration(now-j.renewed) > c.cfg.Lease {
			j.cancel(errLeaseLost)
		}
		if time.Duration(now-j.until) > c.cfg.Lease {
			stray = append(stray, j)
			delete(c.leases.jobs, j)
		}
	}
	c.leases.mu.Unlock()
	for _, j := range stray {
		c.metrics.strayCalls.Inc()
		c.log.Error("a call does not end although it was told to; its task can be taken over", "task", j.work.TaskID,
			"attempt", j.work.Attempts, "partition", j.it.asg.partition, "offset", j.it.offset)
		c.giveUp(j)
	}
}

// giveUp lets the record of a stray call go on, unless the call has come to its end since it was found.
func (c *Consumer) giveUp(j *job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j.over {
		return
	}
	j.stray = true
	c.park(j.it, c.cfg.Lease, true)
	c.freeSlots(1)
}
