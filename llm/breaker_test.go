package llm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ends are the words that scripts of a breaker have for what a call came to.
var ends = map[string]*Failure{
	"ok": nil, "rejected": {Class: RejectedOutput}, "bad": {Class: Permanent, Status: 400, Message: "HTTP 400"}, "local": {Class: Permanent},
	"quota": {Class: Quota, Message: "no money"}, "key": {Class: Permanent, Config: true, Status: 401, Message: "HTTP 401"},
	"404": {Class: Permanent, Config: true, Status: 404, Message: "HTTP 404"}, "redirect": {Class: Permanent, Config: true, Status: 307},
	"refused": {Class: NotSent, Err: errors.New("refused"), Message: "refused"}, "left": {Class: NotSent, Err: fmt.Errorf("x: %w", context.Canceled)},
	"busy": {Class: Overloaded}, "reset": {Class: Ambiguous, Message: "reset"}, "cancelled": {Class: Cancelled}, "unnoted": NotNoted(errors.New("no database")), "429": {Class: RateLimited, RetryAfter: 1},
}

// A script is words: what a call of another workspace came to ("20*reset" twenty of them), "probe:X" a call that is
// admitted now and came to X, "wait" the time until calls may begin, "10s" another time, "late:N" N calls that begin and
// go on, "=STATE,REASON,COOLDOWN" what the gate must say. "late" is a workspace, too: "late=X" is the end of one of its
// calls, "probe=X" of the probe's.
func TestBreaker(t *testing.T) {
	for _, script := range []string{
		// what opens it
		"quota =open,quota,5s",
		"key =open,config,5s",
		"4*404 =closed 404 =open,config,5s",
		"4*404 ok 4*404 =closed redirect =open,config,5s",
		"4*404 bad 4*404 429 4*404 refused 4*404 reset 4*404 =closed",
		"4*404 local cancelled left 404 =open,config,5s", // what says nothing is not in between
		"9*refused =closed refused =open,unreachable,1s",
		"9*refused reset 9*refused bad 9*refused 429 9*refused =closed",
		"9*refused 5*left cancelled local refused =open,unreachable,1s",
		"19*reset =closed busy =open,failing,1s",
		"19*reset ok 19*busy rejected 19*reset bad 19*reset =closed",
		"19*reset 5*refused 3*429 =closed reset =open,failing,1s", // a provider that is there or not is failing all the same
		"50*429 50*unnoted 50*cancelled 50*left 50*local 50*bad 50*rejected =closed",

		// the cool-down, and what ends it
		"quota wait probe:quota =open,quota,10s wait probe:quota =open,quota,20s wait probe:quota =open,quota,40s wait probe:quota =open,quota,1m20s wait probe:quota =open,quota,2m40s wait probe:quota =open,quota,5m20s wait probe:quota =open,quota,10m0s wait probe:quota =open,quota,10m0s",
		"20*reset wait probe:reset =open,failing,2s wait probe:busy wait probe:reset =open,failing,8s wait probe:reset wait probe:reset =open,failing,10s wait probe:reset =open,failing,10s wait probe:ok =closed 20*reset =open,failing,1s",
		"quota wait probe:ok =closed", "quota wait probe:rejected =closed", "quota wait probe:bad =closed", "quota wait probe:429 =closed",
		"quota wait probe:404 =closed", "key wait probe:404 =open,config,10s", "key wait probe:bad =closed",
		"quota wait probe:reset =open,quota,5s", "quota wait probe:refused =open,quota,5s wait probe:quota =open,quota,10s",
		"quota wait probe:key =open,config,10s",
		"20*reset wait probe:quota =open,quota,5s", "20*reset wait probe:refused =open,unreachable,2s", "10*refused wait probe:key =open,config,5s",
		"quota wait probe:cancelled =half_open,quota probe:left =half_open,quota probe:local =half_open,quota probe:ok =closed",
		"quota wait =half_open,quota 10m =half_open,quota probe:ok =closed",

		// a probe that is never heard of again
		"quota wait admit blocked 59s blocked 1s probe:ok =closed",
		"quota wait admit blocked withdraw probe:ok =closed",

		// calls that began before it opened
		"late:9 quota late=ok late=bad late=rejected =open,quota,5s wait late=ok =half_open,quota",
		"late:9 quota late=quota late=quota late=reset =open,quota,5s",
		"late:2 quota wait admit late=ok =half_open,quota late=ok =half_open,quota probe=ok =closed",
		"late:2 quota wait admit late=quota =half_open,quota blocked late=reset blocked probe=ok =closed",
		"same:2 quota wait admit same=ok =half_open,quota same=ok =half_open,quota same=ok =closed", // one of three is the probe's, the last at worst
		"same:2 quota wait admit same=quota =open,quota,10s",
		"same:200 quota 11m admit same=ok =closed", // none of them is under way any more
		"late:2 quota late-withdraw late-withdraw wait admit probe=ok =closed",
		"late:9 20*reset late=bad =closed", "late:9 20*reset late=ok =closed", "late:9 10*refused wait admit late=ok =closed",
		"late:9 20*reset late=429 late=reset late=404 =open,failing,1s", "late:9 20*reset late=quota =open,quota,5s", "late:9 10*refused wait admit late=key =open,config,5s",
		"late:9 key late=quota =open,config,5s",
	} {
		t.Run(script, func(t *testing.T) {
			c := newClocked(GateConfig{})
			var opened time.Time
			end := func(workspace, word string) {
				f, ok := ends[word]
				if !ok {
					t.Fatalf("no end %q", word)
				}
				was := c.State()
				c.Done(workspace, 0, f)
				c.now = c.now.Add(1) // beyond a pause of 1 ns
				if now := c.State(); now.Breaker == "open" && (was.Breaker != "open" || was.Until != now.Until) {
					opened = c.now.Add(-1)
				}
			}
			probe := "probe"
			for word := range strings.FieldsSeq(script) {
				if strings.HasPrefix(word, "same") {
					probe = "same"
				}
				if got, ok := strings.CutPrefix(word, "="); ok {
					s := c.State()
					is := s.Breaker
					if s.Breaker != "closed" {
						is += "," + s.Reason
					}
					if s.Breaker == "open" {
						is += "," + s.Until.Sub(opened).String()
						if c.Blocked() != s.Until.Sub(c.now) {
							t.Errorf("blocked for %v", c.Blocked())
						}
						if _, ok := c.Admit("w"); ok {
							t.Error("admits")
						}
					}
					if is != got {
						t.Fatalf("before %q: %s, want %s", script[strings.Index(script, word):], is, got)
					}
					continue
				}
				if workspace, e, ok := strings.Cut(word, "="); ok {
					end(workspace, e)
					continue
				}
				if key, rest, ok := strings.Cut(word, ":"); ok {
					if n, err := strconv.Atoi(rest); err == nil && key != "probe" {
						for range n {
							if _, ok := c.Admit(key); !ok {
								t.Fatal("not admitted")
							}
						}
						continue
					}
					if _, ok := c.Admit("probe"); !ok {
						t.Fatalf("no probe at %q: %+v", word, c.State())
					}
					end("probe", rest)
					continue
				}
				if d, err := time.ParseDuration(word); err == nil {
					c.now = c.now.Add(d)
					continue
				}
				switch word {
				case "wait":
					c.now = c.now.Add(c.Blocked())
				case "admit":
					if wait, ok := c.Admit(probe); !ok || wait != 0 {
						t.Fatalf("not admitted: %v, %+v", wait, c.State())
					}
				case "blocked":
					if _, ok := c.Admit("w"); ok || c.Blocked() <= 0 {
						t.Fatal("a second probe")
					}
				case "withdraw":
					c.Withdraw(probe)
				case "late-withdraw":
					c.Withdraw("late")
				default:
					n, e, ok := strings.Cut(word, "*")
					if !ok {
						n, e = "1", word
					}
					times, err := strconv.Atoi(n)
					if err != nil {
						t.Fatal(err)
					}
					for range times {
						if wait, ok := c.Admit("w"); !ok || wait != 0 {
							t.Fatalf("not admitted: %v, %+v", wait, c.State())
						}
						end("w", e)
					}
				}
			}
		})
	}
}

// What is shown of an open breaker says why, and since when, over all its openings.
func TestBreakerSaysWhy(t *testing.T) {
	c := newClocked(GateConfig{})
	start := c.now
	c.Done("w", 0, &Failure{Class: Quota, Message: "HTTP 429 insufficient_quota: " + strings.Repeat("x", 1000)})
	for range 3 {
		c.now = c.now.Add(c.Blocked())
		_, _ = c.Admit("w")
		c.Done("w", 0, ends["quota"])
	}
	if s := c.State(); s.Breaker != "open" || s.Reason != "quota" || s.Message != "no money" || !s.Since.Equal(start) || s.Opened != 1 || !s.Until.Equal(c.now.Add(40*time.Second)) {
		t.Errorf("%+v", s)
	}
	c.now = c.now.Add(c.Blocked())
	_, _ = c.Admit("w")
	c.Done("w", 0, nil)
	c.Done("w", 0, ends["key"])
	if s := c.State(); s.Opened != 2 || s.Reason != "config" || !s.Since.Equal(c.now) || len(s.Message) > maxMessage {
		t.Errorf("%+v", s)
	}
}
