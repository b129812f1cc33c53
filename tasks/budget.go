package tasks

import (
	"math/rand/v2"
	"time"
)

// Budget bounds what a task may cost: Attempts are provider calls begun, counted before the call (I5); Interruptions
// are leases that ran out, so that a task that kills its worker ends too. Neither is ever refreshed by a redelivery.
type Budget struct {
	Attempts         int
	MaxAttempts      int
	Interruptions    int
	MaxInterruptions int
}

// AttemptsSpent reports whether no further provider call may begin.
func (b Budget) AttemptsSpent() bool { return b.Attempts >= b.MaxAttempts }

// RetryPolicy spaces the attempts of a task.
type RetryPolicy struct {
	Base time.Duration // ceiling of the first wait; 1 s when 0
	Max  time.Duration // ceiling of every wait; 1 min when 0
}

// Delay draws the wait before the attempt that follows attempt number n (from 1): uniform in [0, min(Max, Base·2^(n-1))),
// which is exponential backoff with full jitter (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015),
// and never below floor, the provider's Retry-After. random returns a number in [0, 1); nil takes the default source.
func (p RetryPolicy) Delay(n int, floor time.Duration, random func() float64) time.Duration {
	if random == nil {
		random = rand.Float64
	}
	base, ceiling := p.Base, p.Max
	if base <= 0 {
		base = time.Second
	}
	if ceiling <= 0 {
		ceiling = time.Minute
	}
	// Double step by step and stop at the ceiling: a shift by a large n, or one doubling too many, would overflow into the
	// past and retry hot.
	wait := min(base, ceiling)
	for i := 1; i < n && wait < ceiling; i++ {
		wait += min(wait, ceiling-wait)
	}
	return max(time.Duration(random()*float64(wait)), floor)
}
