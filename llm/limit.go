package llm

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// Limit bounds calls by the minute; 0 is no bound. A tenth of a minute's allowance may be used at once, so that a minute
// sees at most a tenth more than it says.
type Limit struct{ RequestsPerMinute, TokensPerMinute int }

// firstGuess is the tokens charged for a call before any was seen.
const firstGuess = 1000

// limits are the two limiters of one limit, and what they were charged for calls under way.
type limits struct {
	requests, tokens limiter
	average          float64 // tokens of the recent calls
	charged          int64   // tokens charged for the calls under way
	calls            int64   // under way
}

func (l *limits) init(limit Limit, average float64) {
	*l = limits{requests: newLimiter(limit.RequestsPerMinute), tokens: newLimiter(limit.TokensPerMinute), average: average}
}

// wait is how long the next call would have to wait.
func (l *limits) wait(now time.Time) time.Duration {
	return max(l.requests.wait(now, 1), l.tokens.wait(now, int64(l.average)))
}

func (l *limits) begin(now time.Time) {
	guess := int64(l.average)
	l.requests.charge(now, 1)
	l.tokens.charge(now, guess)
	l.charged += guess
	l.calls++
}

// end takes one call from those under way and returns what it was charged, on average: their sum is what counts.
func (l *limits) end() int64 {
	if l.calls <= 0 {
		return 0
	}
	share := l.charged / l.calls
	l.charged -= share
	l.calls--
	return share
}

// undo ends a call of which the provider saw nothing.
func (l *limits) undo(now time.Time) {
	if l.calls <= 0 {
		return
	}
	l.requests.charge(now, -1)
	l.tokens.charge(now, -l.end())
}

// settle ends a call that used tokens; negative: nobody knows, and the guess stands.
func (l *limits) settle(now time.Time, tokens int64) {
	share := l.end()
	if tokens < 0 {
		return
	}
	l.tokens.charge(now, tokens-share)
	if tokens > 0 {
		l.average += (float64(min(tokens, math.MaxInt32)) - l.average) / 16
	}
}

// untouched: forgetting these limits would let nobody do more.
func (l *limits) untouched(now time.Time) bool {
	return l.calls == 0 && l.requests.full(now) && l.tokens.full(now)
}

// limiter is a token bucket that may be overdrawn: a call larger than the bucket has to be possible, and what a call used
// is known when it has been used.
type limiter struct{ *rate.Limiter }

// maxOverdraft bounds, in bucketfuls, what one call may overdraw: ten minutes' allowance.
const maxOverdraft = 100

func newLimiter(perMinute int) limiter {
	if perMinute <= 0 {
		return limiter{}
	}
	return limiter{rate.NewLimiter(rate.Limit(float64(perMinute)/60), max(1, perMinute/10))}
}

// wait is how long n are to wait for; more than the bucket holds wait until it is full.
func (l limiter) wait(now time.Time, n int64) time.Duration {
	if l.Limiter == nil {
		return 0
	}
	missing := float64(min(n, int64(l.Burst()))) - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(math.Ceil(missing / float64(l.Limit()) * float64(time.Second)))
}

// charge takes n, or gives back -n.
func (l limiter) charge(now time.Time, n int64) {
	if l.Limiter == nil {
		return
	}
	burst := int64(l.Burst())
	if n < 0 {
		l.ReserveN(now, int(max(n, -burst*maxOverdraft)))
	}
	for n = min(n, burst*maxOverdraft); n > 0; n -= burst { // a reservation is at most a bucketful
		l.ReserveN(now, int(min(n, burst)))
	}
}

func (l limiter) full(now time.Time) bool {
	return l.Limiter == nil || l.TokensAt(now) >= float64(l.Burst())
}
