package llm

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// verdict is what the end of a call says of its provider.
type verdict int

const (
	saysNothing     verdict = iota // nothing: it was not asked, or we left
	saysFine                       // it works: it answered, or refused this request for the request's sake
	saysSlower                     // it is there and knows us, and wants fewer calls
	saysQuota                      // there is no money
	saysConfig                     // it does not know us, or what we ask for
	saysUnreachable                // nothing reaches it
	saysFailing                    // nothing usable comes back
)

// verdicts says how many calls in a row open the breaker, and for how long no call is made: the first time, and at most.
var verdicts = [...]struct {
	word           string
	inARow         int
	first, longest time.Duration
	// lasting: only a person ends it. The end of a call that had begun before says nothing of it.
	lasting bool
}{
	saysQuota:       {"quota", 1, 5 * time.Second, 10 * time.Minute, true},
	saysConfig:      {"config", 5, 5 * time.Second, 10 * time.Minute, true}, // one message can name a wrong model
	saysUnreachable: {"unreachable", 10, time.Second, 10 * time.Second, false},
	saysFailing:     {"failing", 20, time.Second, 10 * time.Second, false},
}

// verdictOf returns the verdict, and whether one call is enough for it.
func verdictOf(f *Failure) (kind verdict, certain bool) {
	switch {
	case f == nil:
		return saysFine, true
	case f.Config:
		return saysConfig, f.Status == http.StatusUnauthorized || f.Status == http.StatusProxyAuthRequired
	}
	switch f.Class {
	case Quota:
		return saysQuota, true
	case RateLimited:
		return saysSlower, true
	case NotSent:
		if errors.Is(f.Err, context.Canceled) || errors.Is(f.Err, errNotNoted) {
			return saysNothing, false
		}
		return saysUnreachable, false
	case Overloaded, Ambiguous:
		return saysFailing, false
	case RejectedOutput:
		return saysFine, true
	case Permanent:
		if f.Status != 0 {
			return saysFine, true
		}
	}
	return saysNothing, false // Cancelled, or a request that could not be made
}

const (
	breakerClosed   = "closed"
	breakerOpen     = "open"
	breakerHalfOpen = "half_open"
)

const (
	// probeTime is how long a probe has the provider to itself: one that is never heard of again must not lock it.
	probeTime = time.Minute
	// lateTime is how long the ends of calls that began before the opening are told from the probe's.
	lateTime = 10 * time.Minute
)

// breaker stops calls that are known to fail. It is closed; open for a cool-down; then half open: one call, the probe,
// is let through, and what it comes to closes the breaker or opens it for twice as long.
//
// Calls that began before it opened end while it is open, or half open. What they say of a lasting fault is not
// heeded: an answer that was under way when the money ran out proves nothing. It is heeded of the others: a provider
// that answers is there.
type breaker struct {
	state   string
	kind    verdict
	message string
	since   time.Time // it left closed
	opened  time.Time // the last time
	until   time.Time
	times   int64 // it left closed
	level   int   // how often the cool-down was doubled
	inARow  [len(verdicts)]int
	random  func() float64

	late       int64 // calls that began before the opening and have not ended
	probing    bool
	probe      string // the probe's workspace
	probeUntil time.Time
}

// blocked is how long no call may begin. It turns the breaker half open when the cool-down is over.
func (b *breaker) blocked(now time.Time) time.Duration {
	if b.state == breakerOpen && !now.Before(b.until) {
		b.state, b.probing = breakerHalfOpen, false
	}
	switch b.state {
	case breakerOpen:
		return b.until.Sub(now)
	case breakerHalfOpen:
		if b.probing && now.Before(b.probeUntil) {
			return min(time.Second, b.probeUntil.Sub(now))
		}
		b.probing = false
	}
	return 0
}

// begin is told of each call that is let through.
func (b *breaker) begin(workspace string, at time.Time) {
	if b.state == breakerHalfOpen {
		b.probing, b.probe, b.probeUntil = true, workspace, at.Add(probeTime)
	}
}

// end is told what a call came to. calls are those still under way.
func (b *breaker) end(now time.Time, workspace string, f *Failure, calls int64) {
	kind, certain := verdictOf(f)
	if now.Sub(b.opened) > lateTime {
		b.late = 0
	}
	if b.state == breakerClosed {
		if b.count(kind, certain) {
			b.since, b.late = now, calls
			b.times++
			b.open(now, kind, 0, f)
		}
		return
	}
	// A call of the probe's workspace may be the probe or a late one. A failure is taken for the probe's, an answer is
	// not: both err on the side of fewer calls, and only as long as there are late calls.
	mine := b.state == breakerHalfOpen && b.probing && workspace == b.probe
	orderly := kind == saysFine || kind == saysSlower || kind == saysConfig && !certain && b.kind != saysConfig
	switch {
	case mine && kind == saysNothing:
		b.probing = false
	case mine && orderly && b.late == 0:
		b.close()
		b.count(kind, certain)
	case mine && !orderly:
		b.again(now, kind, f)
	default:
		b.late = max(b.late-1, 0)
		switch lasting := verdicts[b.kind].lasting; {
		case !lasting && kind == saysFine:
			b.close()
		case !lasting && certain && verdicts[kind].lasting:
			b.open(now, kind, 0, f)
		}
	}
}

// withdrawn is told of a call that was let through and not begun.
func (b *breaker) withdrawn(workspace string) {
	switch {
	case b.state == breakerHalfOpen && b.probing && workspace == b.probe:
		b.probing = false
	case b.state != breakerClosed:
		b.late = max(b.late-1, 0)
	}
}

// count counts a call's end and says whether it opens the breaker.
func (b *breaker) count(kind verdict, certain bool) bool {
	switch kind {
	case saysNothing:
		return false
	case saysFine:
		b.inARow = [len(verdicts)]int{}
		return false
	case saysSlower:
		b.inARow[saysConfig], b.inARow[saysUnreachable] = 0, 0
		return false
	}
	if kind != saysConfig {
		b.inARow[saysConfig] = 0
	}
	if kind != saysUnreachable {
		b.inARow[saysUnreachable] = 0
	}
	b.inARow[kind]++
	return certain || b.inARow[kind] >= verdicts[kind].inARow
}

// again opens it after a probe that failed. A lasting fault is not forgotten because the probe met another.
func (b *breaker) again(now time.Time, kind verdict, f *Failure) {
	switch was, is := verdicts[b.kind].lasting, verdicts[kind].lasting; {
	case was && !is:
		b.open(now, b.kind, b.level, nil)
	case is && !was:
		b.open(now, kind, 0, f)
	default:
		b.open(now, kind, b.level+1, f)
	}
}

func (b *breaker) open(now time.Time, kind verdict, level int, f *Failure) {
	row := verdicts[kind]
	d := row.longest
	if level < 10 {
		d = min(row.first<<level, row.longest)
	}
	// A little less each, so that many processes do not probe as one.
	d -= time.Duration(b.random() * float64(d) / 4)
	b.state, b.kind, b.level, b.probing = breakerOpen, kind, level, false
	b.opened, b.until = now, now.Add(d)
	if f != nil {
		b.message = clip(f.Message, maxMessage)
	}
}

func (b *breaker) close() {
	b.state, b.probing, b.late = breakerClosed, false, 0
	b.inARow = [len(verdicts)]int{}
}
