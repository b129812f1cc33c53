package consumer

// Back-pressure: a partition whose window is full is not fetched until it is half empty again. The bounds count what
// the tracker and the queues really hold, so there is no counter beside them that could leak.

func (a *assignment) full(cfg Config) bool {
	return a.tracker.Unsettled() >= cfg.MaxQueued || a.bytes >= cfg.MaxQueuedBytes || a.tracker.Window() >= cfg.MaxWindow
}

func (a *assignment) roomy(cfg Config) bool {
	return a.tracker.Unsettled() <= cfg.MaxQueued/2 && a.bytes <= cfg.MaxQueuedBytes/2 && a.tracker.Window() <= cfg.MaxWindow/2
}

// adjustFetching pauses or resumes the partition as its window wants it now. Calls are serialised: a pause that was
// decided before a resume but carried out after it would silence the partition for good.
func (c *Consumer) adjustFetching(a *assignment) {
	c.pauseMu.Lock()
	defer c.pauseMu.Unlock()
	c.mu.Lock()
	before := a.paused
	switch {
	case a.dead:
	case a.full(c.cfg):
		a.paused = true
	case a.roomy(c.cfg):
		a.paused = false
	}
	now := a.paused
	c.mu.Unlock()
	if now == before {
		return
	}
	partition := map[string][]int32{a.topic: {a.partition}}
	if !now {
		a.session.client.ResumeFetchPartitions(partition)
		return
	}
	a.session.client.PauseFetchPartitions(partition)
	c.mu.Lock()
	dead := a.dead
	c.mu.Unlock()
	if dead { // retired while it was being paused: see retire
		a.session.client.ResumeFetchPartitions(partition)
	}
}
