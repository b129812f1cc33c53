package llm

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRecoveryConfigIsChecked(t *testing.T) {
	key := func(change func(*RecoveryConfig)) RecoveryConfig {
		c := RecoveryConfig{Kind: RecoverKey, Retention: time.Hour}
		change(&c)
		return c
	}
	for _, c := range []struct {
		cfg  RecoveryConfig
		says string // "": it is well
	}{
		{RecoveryConfig{}, ""},
		{RecoveryConfig{Kind: RecoverNone, Header: "not asked for:"}, ""},
		{RecoveryConfig{Kind: RecoverStored}, ""},
		{RecoveryConfig{Kind: RecoverBackground}, "not possible"},
		{RecoveryConfig{Kind: "hope"}, "not possible"},
		{RecoveryConfig{Kind: RecoverStored, SettleDelay: -1}, "negative"},
		{RecoveryConfig{Kind: RecoverStored, Retention: -1}, "negative"},
		{RecoveryConfig{Kind: RecoverStored, PollEvery: -1}, "negative"},
		{key(func(c *RecoveryConfig) {}), ""},
		{key(func(c *RecoveryConfig) { c.Header = "X-Request-Key" }), ""},
		{key(func(c *RecoveryConfig) { c.Retention = 0 }), "how long"},
		{key(func(c *RecoveryConfig) { c.Header = "two words" }), "header"},
		{key(func(c *RecoveryConfig) { c.Header = "A\r\nB" }), "header"},
		{key(func(c *RecoveryConfig) { c.Header = "authorization" }), "header"},
		{key(func(c *RecoveryConfig) { c.Header = "content-length" }), "header"},
		{key(func(c *RecoveryConfig) { c.InProgress, c.Conflict = 425, 409 }), ""},
		{key(func(c *RecoveryConfig) { c.Conflict = 409 }), "different"},
		{key(func(c *RecoveryConfig) { c.InProgress = 202 }), "400 to 599"},
	} {
		err := c.cfg.Check(RecoverStored, RecoverKey)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}

// Questions that get no answer come ever more slowly, and end.
func TestPollingPacesAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Polling{Every: 2 * time.Second}
		busy := Response{Status: 503, Header: http.Header{}}
		pause := func() time.Duration {
			from := time.Now()
			if !p.Pause(context.Background()) {
				t.Fatal("no pause")
			}
			return time.Since(from)
		}
		ok := func(resp Response, f *Failure, want bool) {
			t.Helper()
			if got, giveUp := p.Answered(resp, f); got != want || giveUp != nil {
				t.Fatalf("answered %v, %v", got, giveUp)
			}
		}
		ok(Response{Status: 200}, nil, true)
		if got := pause(); got != 2*time.Second {
			t.Errorf("paused %s", got)
		}
		for _, want := range []time.Duration{4, 8, 15, 15} {
			ok(busy, nil, false)
			if got := pause(); got != want*time.Second {
				t.Errorf("paused %s, want %d s", got, want)
			}
		}
		ok(Response{Status: 404}, nil, true) // it speaks again
		ok(Response{Status: 429, Header: http.Header{"Retry-After": {"7"}}}, nil, false)
		if got := pause(); got != 7*time.Second {
			t.Errorf("paused %s, and 7 s were asked for", got)
		}
		ok(Response{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}, nil, false)
		if got := pause(); got != maxPause {
			t.Errorf("paused %s", got)
		}
		for range 3 {
			ok(Response{}, &Failure{Class: NotSent, Message: "dial", Report: Report{Lookups: 0}}, false)
		}
		_, giveUp := p.Answered(Response{}, &Failure{Class: Ambiguous, Message: "reset", Err: errMalformed, Report: Report{Lookups: 1}})
		if giveUp == nil || giveUp.Class != NotSent || !errors.Is(giveUp, errMalformed) || giveUp.Lookups != 9 || giveUp.WireRequests != 0 {
			t.Errorf("%+v", giveUp)
		}
		q := Polling{Every: time.Second}
		if _, giveUp := q.Answered(Response{Status: 403, Header: http.Header{}}, nil); giveUp == nil || giveUp.Status != 403 || giveUp.Class != NotSent {
			t.Errorf("a refusal for good: %+v", giveUp)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if p.Pause(ctx) {
			t.Error("paused beyond its context")
		}
	})
}
