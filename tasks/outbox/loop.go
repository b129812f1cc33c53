package outbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// loop is one Run. Its fields belong to the goroutine of run; others reach them by posting functions to events.
type loop struct {
	*Dispatcher
	client *kgo.Client // nil while it is being replaced
	hand   hand
	acks   acks
	spare  []ack
	events chan func()

	tenure   tenure
	flight   context.Context // of what is in flight: it outlasts the stop by DrainTimeout
	stopping bool

	stale    bool      // the client must be replaced, or is being replaced
	failures int       // rounds in a row in which records did not get through
	resume   time.Time // nothing is produced before

	reads       int // numbers given to reads and sweeps
	read, sweep job
	readBegan   time.Time
	woken       bool // since the read that is running began
	sweeping    []cursor
	sweepTook   time.Duration
	poll        time.Duration
	delete      job
	promote     job
	recovery    recovery
}

func newLoop(d *Dispatcher, client *kgo.Client) *loop {
	return &loop{
		Dispatcher: d, client: client,
		events: make(chan func(), 8),
		acks:   acks{signal: make(chan struct{}, 1)},
		poll:   d.config.PollMin,
	}
}

// run owns the client and returns when ctx is done and what could be finished is finished. No goroutine of it is left then.
func (l *loop) run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	work, stopWork := context.WithCancel(ctx)
	defer stopWork()
	flight, ground := context.WithCancel(context.WithoutCancel(ctx))
	defer ground()
	l.flight = flight
	over := make(chan struct{}) // nobody takes events any more
	defer close(over)
	defer func() {
		if l.client != nil {
			l.client.Close()
		}
	}()
	post := func(event func()) {
		select {
		case l.events <- event:
		case <-over:
		}
	}
	workers.Go(func() { l.keep(work, func(t tenure) { post(func() { l.assigned(t) }) }) })

	done, end := ctx.Done(), (<-chan time.Time)(nil)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		l.expire(now)
		l.produce(now)
		l.begin(work, now, func(f func()) { workers.Go(f) }, post)
		if l.stopping && l.hand.flying == 0 && len(l.hand.done) == 0 && !l.delete.running {
			return
		}
		timer.Reset(l.idle(now))
		select {
		case event := <-l.events:
			event()
		case <-l.acks.signal:
			l.land(time.Now())
		case <-l.wake:
			l.woken, l.read.due, l.poll = true, l.readBegan.Add(hintGap), l.config.PollMin
		case <-timer.C:
		case <-done:
			done, l.stopping = nil, true
			end = time.After(l.config.DrainTimeout)
			stopWork()
		case <-end:
			l.config.Logger.Warn("dispatcher stops with records in flight; they are published again",
				"records", l.hand.flying)
			return
		}
	}
}

// assigned takes the shards of t and no others.
func (l *loop) assigned(t tenure) {
	if l.stopping {
		return
	}
	slices.Sort(t.shards)
	changed := !slices.Equal(t.shards, l.tenure.shards)
	l.tenure = t
	l.own(t.shards)
	if changed {
		l.metrics.shards.Set(float64(len(t.shards)))
		l.config.Logger.Info("shards of the outbox", "owner", l.config.Owner, "shards", t.shards)
		l.read.due = time.Time{}
	}
}

func (l *loop) own(shards []int16) {
	l.hand.own(shards)
	l.leads.Store(slices.Contains(shards, 0))
}

// expire drops all shards when their lease may have ended.
func (l *loop) expire(now time.Time) {
	if len(l.hand.shards) == 0 || now.Before(l.tenure.until) {
		return
	}
	l.own(nil)
	l.tenure.shards = nil
	l.metrics.shards.Set(0)
	l.config.Logger.Error("leases of the outbox's shards ended; nothing is published until they are renewed",
		"owner", l.config.Owner)
}

// idle is how long nothing becomes due.
func (l *loop) idle(now time.Time) time.Duration {
	next := now.Add(time.Second)
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	for _, j := range []*job{&l.read, &l.sweep, &l.promote, &l.delete, &l.recovery.job} {
		if !j.running && j.due.After(now) {
			earlier(j.due)
		}
	}
	if l.resume.After(now) {
		earlier(l.resume)
	}
	if len(l.hand.parked) > 0 {
		earlier(l.hand.recheck)
	}
	if len(l.hand.shards) > 0 {
		earlier(l.tenure.until)
	}
	return max(next.Sub(now), 0)
}
