package llm

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter caps what a provider may ask for. The caller puts the task off, so a longer wait is asked for again.
const MaxRetryAfter = 10 * time.Minute

// RetryAfter reads how long the provider wants to be left alone: 0 when it said nothing, nothing usable, or a moment
// that has passed; at most MaxRetryAfter. Milliseconds win over the standard header, as in the providers' own clients.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get(name)), 64); err == nil {
			return scaled(ms, time.Millisecond)
		}
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return scaled(s, time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), MaxRetryAfter)
	}
	return 0
}

func scaled(n float64, unit time.Duration) time.Duration {
	if math.IsNaN(n) || math.IsInf(n, 0) || n <= 0 {
		return 0
	}
	d := n * float64(unit)
	if d >= float64(MaxRetryAfter) {
		return MaxRetryAfter
	}
	return time.Duration(d)
}
