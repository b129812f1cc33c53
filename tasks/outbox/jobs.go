package outbox

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

const (
	storeTimeout  = 10 * time.Second // of a read, a delete or a promotion
	deleteBatch   = 2000
	promoteBatch  = 1000
	hintGap       = 4 * time.Millisecond // between reads that hints ask for: many submissions share one
	sweepQuotient = 40                   // a sweep takes at most this part of the time
)

// job is something of which at most one runs at a time.
type job struct {
	running bool
	number  int       // of the read that is running
	due     time.Time // when the next may begin
	failed  bool      // the last one did; so that a streak is logged once
}

func (j *job) ready(now time.Time) bool { return !j.running && !now.Before(j.due) }

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
	if l.stale && l.hand.flying == 0 && l.client != nil {
		l.replaceClient(spawn, post)
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
	l.startRecovery(ctx, now, spawn, post)
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
	switch taken, more := l.hand.received(from, rows, limit, horizon, now); {
	case more:
		l.read.due, l.poll = now, l.config.PollMin
	case l.woken:
		l.read.due, l.poll = l.readBegan.Add(hintGap), l.config.PollMin
	case taken > 0:
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
