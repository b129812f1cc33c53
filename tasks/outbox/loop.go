package outbox

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/tasks"
)

const (
	storeTimeout  = 10 * time.Second // of a read, a delete or a promotion
	deleteBatch   = 2000
	promoteBatch  = 1000
	firstPause    = 100 * time.Millisecond // after a failure; doubles to lastPause
	lastPause     = 5 * time.Second
	hintGap       = 4 * time.Millisecond // between reads that hints ask for: many submissions share one
	sweepQuotient = 40                   // a sweep takes at most this part of the time
)

// loop is one Run. Its fields belong to the goroutine of run; others reach them by posting functions to events.
type loop struct {
	*Dispatcher
	client *kgo.Client
	hand   hand
	acks   acks
	spare  []ack
	events chan func()

	tenure   tenure
	flight   context.Context // of what is in flight: it outlasts the stop by DrainTimeout
	stopping bool

	stale    bool      // the client must be replaced
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
}

// job is something of which at most one runs at a time.
type job struct {
	running bool
	number  int       // of the read that is running
	due     time.Time // when the next may begin
	failed  bool      // the last one did; so that a streak is logged once
}

func (j *job) ready(now time.Time) bool { return !j.running && !now.Before(j.due) }

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
	defer func() { l.client.Close() }()
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
	l.hand.own(t.shards)
	if changed {
		l.metrics.shards.Set(float64(len(t.shards)))
		l.config.Logger.Info("shards of the outbox", "owner", l.config.Owner, "shards", t.shards)
		l.read.due = time.Time{}
	}
}

// expire drops all shards when their lease may have ended.
func (l *loop) expire(now time.Time) {
	if len(l.hand.shards) == 0 || now.Before(l.tenure.until) {
		return
	}
	l.hand.own(nil)
	l.tenure.shards = nil
	l.metrics.shards.Set(0)
	l.config.Logger.Error("leases of the outbox's shards ended; nothing is published until they are renewed",
		"owner", l.config.Owner)
}

// produce starts what may be in flight.
func (l *loop) produce(now time.Time) {
	l.hand.unpark(now)
	l.metrics.parked.Set(float64(len(l.hand.parked)))
	if l.stopping || l.stale || now.Before(l.resume) {
		return
	}
	for l.hand.flying < l.config.window() {
		r := l.hand.next()
		if r == nil {
			return
		}
		l.client.Produce(l.flight, record(r.Handoff, r.lane.key), func(_ *kgo.Record, err error) { l.acks.add(r, err) })
	}
}

// land takes what the broker has answered.
func (l *loop) land(now time.Time) {
	l.spare = l.acks.take(l.spare)
	ok, failed := 0, 0
	var reason error
	for _, a := range l.spare {
		switch {
		case a.err == nil:
			ok++
			l.hand.acknowledged(a.row)
		case refused(a.err):
			if !l.hand.refused(a.row, now) {
				l.metrics.published.WithLabelValues(resultFailed).Inc()
				continue
			}
			l.metrics.published.WithLabelValues(resultRefused).Inc()
			l.config.Logger.Error("a handoff is refused by the broker; it is kept and its conversation waits",
				"task", a.row.TaskID, "workspace", a.row.Workspace, "tries", a.row.lane.tries,
				"again_in", a.row.lane.until.Sub(now), "error", a.err)
		default:
			failed++
			reason = a.err
			l.hand.failed(a.row)
		}
	}
	clear(l.spare)
	l.metrics.published.WithLabelValues(resultOK).Add(float64(ok))
	l.metrics.published.WithLabelValues(resultFailed).Add(float64(failed))
	l.pace(ok > 0, reason, now)
}

// pace holds producing back while records do not get through.
func (l *loop) pace(got bool, reason error, now time.Time) {
	if reason == nil {
		if got {
			l.failures = 0
			if before := l.report(&l.publish, nil); before != nil {
				l.config.Logger.Info("records get through again", "topic", l.config.Topic)
			}
		}
		return
	}
	l.stale = l.stale || topicGone(reason)
	if now.Before(l.resume) || l.stopping {
		return // more of the same failure
	}
	l.failures++
	pause := min(firstPause<<min(l.failures-1, 10), lastPause)
	l.resume = now.Add(pause/2 + rand.N(pause/2))
	if before := l.report(&l.publish, reason); before == nil {
		l.config.Logger.Error("records do not get through; their handoffs are kept and tried again",
			"topic", l.config.Topic, "error", reason)
	}
}

// idle is how long nothing becomes due.
func (l *loop) idle(now time.Time) time.Duration {
	next := now.Add(time.Second)
	earlier := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	for _, j := range []*job{&l.read, &l.sweep, &l.promote, &l.delete} {
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

// begin starts every job that is due. Each runs beside the loop and posts what came of it.
func (l *loop) begin(ctx context.Context, now time.Time, spawn func(func()), post func(func())) {
	if len(l.hand.done) > 0 && l.delete.ready(now) {
		rows := l.hand.take(deleteBatch)
		l.delete.running = true
		spawn(func() {
			// Under flight, which outlasts the stop: what was acknowledged and not deleted is published again.
			err := l.call(l.flight, func(ctx context.Context) error { return l.remove(ctx, rows) })
			post(func() { l.removed(rows, err) })
		})
	}
	if l.stopping {
		return
	}
	if l.stale && l.hand.flying == 0 {
		l.replaceClient(spawn)
	}
	l.hand.forget(l.oldest())
	if l.promote.ready(now) {
		l.promote.running = true
		spawn(func() {
			var n int
			err := l.call(ctx, func(ctx context.Context) (err error) {
				n, err = l.config.Store.Promote(ctx, promoteBatch)
				return err
			})
			post(func() { l.promoted(n, err) })
		})
	}
	if len(l.hand.shards) == 0 {
		return
	}
	if room := l.config.window() - l.hand.size(l.config.window()); room > 0 && l.read.ready(now) {
		l.startRead(ctx, room, spawn, post)
	}
	if l.sweep.ready(now) {
		l.startSweep(ctx, spawn, post)
	}
}

// replaceClient starts over when the topic is gone: a client never adopts a topic that was made again, and one that is
// told to forget the topic would number its records anew under the same producer id, so that a broker which still has
// the topic could take new records for repeated ones and acknowledge what it does not write.
func (l *loop) replaceClient(spawn func(func())) {
	client, err := kgo.NewClient(l.config.producing()...)
	if err != nil {
		l.config.Logger.Error("client for the outbox's topic", "error", err)
		return
	}
	old := l.client
	spawn(old.Close)
	l.client, l.stale = client, false
}

func (l *loop) call(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return f(ctx)
}

// ended notes that a job ended and reports whether it went well; the next one waits a little if not.
func (l *loop) ended(j *job, what string, err error) bool {
	j.running = false
	if err == nil {
		j.failed = false
		return true
	}
	j.due = time.Now().Add(firstPause + rand.N(2*firstPause))
	if !j.failed && !l.stopping {
		l.config.Logger.Error("the outbox's store fails; trying again", "at", what, "error", err)
	}
	j.failed = true
	return false
}

// startRead reads on from the safe points of all shards. The limit of a shard has room for what is in hand of it and
// is read over, so that a full page is no reason to skip.
func (l *loop) startRead(ctx context.Context, room int, spawn func(func()), post func(func())) {
	from := slices.SortedFunc(maps.Values(l.hand.shards), byNumber)
	marks := make([]tasks.Mark, len(from))
	inHand := 0
	for i, s := range from {
		marks[i] = tasks.Mark{Shard: s.number, After: s.safe}
		inHand = max(inHand, len(s.held))
	}
	limit := max(min(l.config.BatchSize, room)/len(from), 1) + inHand
	l.number(&l.read)
	l.woken, l.readBegan = false, time.Now()
	spawn(func() {
		var rows []tasks.Handoff
		var horizon tasks.Horizon
		err := l.call(ctx, func(ctx context.Context) (err error) {
			rows, horizon, err = l.config.Store.Read(ctx, marks, limit)
			return err
		})
		post(func() { l.gotRead(from, rows, limit, horizon, err) })
	})
}

func (l *loop) gotRead(from []*shard, rows []tasks.Handoff, limit int, horizon tasks.Horizon, err error) {
	if !l.ended(&l.read, "read", err) {
		return
	}
	now := time.Now()
	switch more := l.hand.received(from, rows, limit, horizon, now); {
	case more:
		l.read.due, l.poll = now, l.config.PollMin
	case l.woken:
		l.read.due, l.poll = l.readBegan.Add(hintGap), l.config.PollMin
	case len(rows) > 0:
		l.read.due, l.poll = now.Add(l.config.PollMin), l.config.PollMin
	default:
		l.read.due, l.poll = now.Add(l.poll), min(2*l.poll, l.config.PollMax)
	}
}

// startSweep reads a page of each shard from its low end, or from where the sweep has come to.
func (l *loop) startSweep(ctx context.Context, spawn func(func()), post func(func())) {
	if len(l.sweeping) == 0 {
		l.sweepTook = 0
		for _, s := range slices.SortedFunc(maps.Values(l.hand.shards), byNumber) {
			l.sweeping = append(l.sweeping, cursor{shard: s})
		}
	}
	from := l.sweeping
	marks := make([]tasks.Mark, len(from))
	for i, c := range from {
		marks[i] = tasks.Mark{Shard: c.shard.number, After: c.after}
	}
	limit := max(l.config.BatchSize/len(from), 16)
	l.number(&l.sweep)
	spawn(func() {
		var rows []tasks.Handoff
		begun := time.Now()
		err := l.call(ctx, func(ctx context.Context) (err error) {
			rows, _, err = l.config.Store.Read(ctx, marks, limit)
			return err
		})
		post(func() { l.swept(from, rows, limit, time.Since(begun), err) })
	})
}

func (l *loop) swept(from []cursor, rows []tasks.Handoff, limit int, took time.Duration, err error) {
	l.sweepTook += took
	if !l.ended(&l.sweep, "sweep", err) {
		l.sweeping = nil
		return
	}
	var late int
	if l.sweeping, late = l.hand.swept(from, rows, limit); late > 0 {
		l.metrics.stragglers.Add(float64(late))
	}
	if len(l.sweeping) == 0 {
		l.sweep.due = time.Now().Add(max(l.config.SweepEvery, sweepQuotient*l.sweepTook))
	}
}

func byNumber(a, b *shard) int { return cmp.Compare(a.number, b.number) }

// number marks a read as running; deleted rows are remembered until no read is left that began before the delete ended.
func (l *loop) number(j *job) {
	l.reads++
	j.running, j.number = true, l.reads
}

// oldest is the number of the oldest read that is running, or of the next.
func (l *loop) oldest() int {
	n := l.reads + 1
	for _, j := range []*job{&l.read, &l.sweep} {
		if j.running {
			n = min(n, j.number)
		}
	}
	return n
}

func (l *loop) remove(ctx context.Context, rows []*row) error {
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.ID, b.ID))
	})
	published := make([]tasks.Handoff, len(rows))
	for i, r := range rows {
		published[i] = r.Handoff
	}
	return l.config.Store.Delete(ctx, published)
}

func (l *loop) removed(rows []*row, err error) {
	if !l.ended(&l.delete, "delete", err) {
		l.hand.done = append(l.hand.done, rows...)
		return
	}
	l.hand.deleted(rows, l.reads)
}

func (l *loop) promoted(n int, err error) {
	if !l.ended(&l.promote, "promote", err) {
		return
	}
	if l.promote.due = time.Now().Add(l.config.PromoteEvery); n > 0 {
		l.promote.due, l.read.due = time.Time{}, time.Time{}
	}
}
