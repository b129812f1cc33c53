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
// Without either, a limit of which the headers say that nothing remains is waited for until its reset.
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
	return untilReset(h, now)
}

// resets are the headers of limits, remaining and reset. OpenAI states a reset as a duration, Anthropic as a moment.
var resets = func() (names [][2]string) {
	for _, kind := range [...]string{"Requests", "Tokens"} {
		names = append(names, [2]string{"X-Ratelimit-Remaining-" + kind, "X-Ratelimit-Reset-" + kind})
	}
	for _, kind := range [...]string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"} {
		names = append(names, [2]string{"Anthropic-Ratelimit-" + kind + "-Remaining", "Anthropic-Ratelimit-" + kind + "-Reset"})
	}
	return names
}()

// untilReset is the wait for the last of the limits that are used up.
func untilReset(h http.Header, now time.Time) (wait time.Duration) {
	for _, name := range resets {
		if strings.TrimSpace(h.Get(name[0])) != "0" {
			continue
		}
		value := strings.TrimSpace(h.Get(name[1]))
		if d, err := time.ParseDuration(value); err == nil {
			wait = max(wait, d)
		} else if at, err := time.Parse(time.RFC3339, value); err == nil {
			wait = max(wait, at.Sub(now))
		}
	}
	return min(wait, MaxRetryAfter)
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
