package tasks

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestI5_AttemptsAreSpentAtTheMaximum(t *testing.T) {
	for attempts, want := range []bool{false, false, true, true} {
		if got := (Budget{Attempts: attempts, MaxAttempts: 2}).AttemptsSpent(); got != want {
			t.Errorf("%d of 2 attempts: spent %t", attempts, got)
		}
	}
}

func TestDelay_DoublesUpToItsCeiling(t *testing.T) {
	p := RetryPolicy{Base: time.Second, Max: 10 * time.Second}
	half := func() float64 { return 0.5 }
	for n, want := range map[int]time.Duration{
		math.MinInt: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second,
		5: 10 * time.Second, 6: 10 * time.Second, 64: 10 * time.Second, 1_000_000: 10 * time.Second, math.MaxInt: 10 * time.Second,
	} {
		if got := p.Delay(n, 0, half); got != want/2 {
			t.Errorf("attempt %d: %s, want %s", n, got, want/2)
		}
	}
}

func TestDelay_DoesNotOverflow(t *testing.T) {
	p := RetryPolicy{Base: 1, Max: math.MaxInt64}
	for n, want := range map[int]time.Duration{1: 1, 62: 1 << 61, 63: 1 << 62, 64: math.MaxInt64, 1_000_000: math.MaxInt64, math.MaxInt: math.MaxInt64} {
		if got := p.Delay(n, 0, func() float64 { return 0.5 }); got < want/2-1 || got > want/2+1 {
			t.Errorf("attempt %d: %s, want half of %s", n, got, want)
		}
	}
}

func TestDelay_Defaults(t *testing.T) {
	most := func() float64 { return math.Nextafter(1, 0) }
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 7: time.Minute, 1_000_000: time.Minute} {
		if got := (RetryPolicy{}).Delay(n, 0, most); got > want || got < want-time.Microsecond {
			t.Errorf("attempt %d: %s, want just below %s", n, got, want)
		}
	}
	if got := (RetryPolicy{}).Delay(3, 0, nil); got < 0 || got > 4*time.Second {
		t.Errorf("the default source: %s", got)
	}
}

// The whole range is drawn from: full jitter, not a jittered constant.
func TestDelay_IsUniformFromZero(t *testing.T) {
	p := RetryPolicy{Base: time.Second, Max: time.Minute}
	if got := p.Delay(4, 0, func() float64 { return 0 }); got != 0 {
		t.Errorf("the least delay is %s", got)
	}
	const draws = 2000
	low := 0
	for range draws {
		d := p.Delay(4, 0, nil)
		if d < 0 || d >= 8*time.Second {
			t.Fatalf("delay %s", d)
		}
		if d < 2*time.Second {
			low++
		}
	}
	if low < draws/8 || low > draws*3/8 { // a quarter, give or take 14 standard deviations
		t.Errorf("%d of %d delays are in the lowest quarter", low, draws)
	}
}

func TestDelay_StaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := RetryPolicy{
			Base: time.Duration(rapid.Int64().Draw(t, "base")),
			Max:  time.Duration(rapid.Int64().Draw(t, "max")),
		}
		n := rapid.Int().Draw(t, "n")
		floor := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "floor"))
		ceiling := p.Max
		if ceiling <= 0 {
			ceiling = time.Minute
		}
		d := p.Delay(n, floor, func() float64 { return rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random") })
		if d < floor || d < 0 || d > max(ceiling, floor) {
			t.Fatalf("delay %s of %+v with the floor %s", d, p, floor)
		}
	})
}
