package consumer

import (
	"testing"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

func TestDecide(t *testing.T) {
	for name, tc := range map[string]struct {
		class     llm.Class
		wire      int
		cause     error
		after     time.Duration
		spent     bool
		stop      bool
		recovers  bool
		final     bool
		remaining time.Duration
		want      decision
	}{
		"overloaded":                             {class: llm.Overloaded, wire: 1, want: decision{outcome: tasks.OutcomeRetry, class: "overloaded"}},
		"overloaded, budget spent":               {class: llm.Overloaded, wire: 1, spent: true, want: decision{outcome: tasks.OutcomeFail, class: "overloaded"}},
		"retry-after is a floor":                 {class: llm.RateLimited, wire: 1, after: 20 * time.Second, want: decision{outcome: tasks.OutcomeRetry, class: "rate_limited", after: 20 * time.Second}},
		"retry-after beyond parking":             {class: llm.RateLimited, wire: 1, after: 2 * time.Minute, want: decision{outcome: tasks.OutcomeRetry, class: "rate_limited", after: 2 * time.Minute, handoff: true}},
		"retry-after beyond the deadline":        {class: llm.RateLimited, wire: 1, after: time.Hour, want: decision{outcome: tasks.OutcomeFail, class: "rate_limited"}},
		"ambiguous":                              {class: llm.Ambiguous, wire: 1, want: decision{outcome: tasks.OutcomeRetry, class: "ambiguous"}},
		"ambiguous and the task says stop":       {class: llm.Ambiguous, wire: 1, stop: true, want: decision{outcome: tasks.OutcomeFail, class: "ambiguous"}},
		"not sent and the task says stop":        {class: llm.NotSent, stop: true, want: decision{outcome: tasks.OutcomeRetry, class: "not_sent"}},
		"the provider says it stays so":          {class: llm.Ambiguous, wire: 1, final: true, want: decision{outcome: tasks.OutcomeFail, class: "ambiguous"}},
		"permanent":                              {class: llm.Permanent, wire: 1, want: decision{outcome: tasks.OutcomeFail, class: "permanent"}},
		"quota":                                  {class: llm.Quota, wire: 1, want: decision{outcome: tasks.OutcomeFail, class: "quota"}},
		"our time limit: it may have run":        {class: llm.Cancelled, wire: 1, cause: errTimeout, want: decision{outcome: tasks.OutcomeRetry, class: "ambiguous"}},
		"our time limit, and stop":               {class: llm.Cancelled, wire: 1, cause: errTimeout, stop: true, want: decision{outcome: tasks.OutcomeFail, class: "ambiguous"}},
		"the deadline":                           {class: llm.Cancelled, wire: 1, cause: errDeadline, want: decision{outcome: tasks.OutcomeFail, class: "deadline"}},
		"the worker stops":                       {class: llm.Cancelled, wire: 1, cause: errStopped, want: decision{outcome: tasks.OutcomeRetry, class: "cancelled"}},
		"the worker stops, before the wire":      {class: llm.NotSent, cause: errStopped, want: decision{outcome: tasks.OutcomeRetry, class: "not_sent"}},
		"the worker stops, budget spent":         {class: llm.Cancelled, wire: 1, cause: errStopped, spent: true, want: decision{outcome: tasks.OutcomeFail, class: "cancelled"}},
		"the worker stops, and stop":             {class: llm.Cancelled, wire: 1, cause: errStopped, stop: true, want: decision{outcome: tasks.OutcomeFail, class: "ambiguous"}},
		"stop, but it can be looked up":          {class: llm.Ambiguous, wire: 1, stop: true, recovers: true, want: decision{outcome: tasks.OutcomeRetry, class: "ambiguous"}},
		"stop, and nobody is left to look it up": {class: llm.Ambiguous, wire: 1, stop: true, recovers: true, spent: true, want: decision{outcome: tasks.OutcomeFail, class: "ambiguous"}},
		"the lease is lost":                      {class: llm.Cancelled, wire: 1, cause: errLeaseLost, want: decision{outcome: tasks.OutcomeRetry, class: "cancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{ParkMax: time.Minute, Retry: tasks.RetryPolicy{Base: time.Nanosecond, Max: time.Nanosecond}}
			w := &tasks.Work{Budget: tasks.Budget{Attempts: 1, MaxAttempts: 3}, Remaining: 10 * time.Minute, OnAmbiguous: tasks.AmbiguousRetry}
			if tc.spent {
				w.Attempts = 3
			}
			if tc.stop {
				w.OnAmbiguous = tasks.AmbiguousStop
			}
			f := &llm.Failure{Class: tc.class, RetryAfter: tc.after, Final: tc.final, Report: llm.Report{WireRequests: tc.wire}}
			if got := decide(cfg, w, f, tc.cause, time.Second, tc.recovers); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// I7: what cost nothing is 0, what may have cost something is unknown.
func TestI7_LedgerOfAFailedCall(t *testing.T) {
	w := &tasks.Work{Request: tasks.Request{Model: "asked"}}
	for name, tc := range map[string]struct {
		failure llm.Failure
		known   bool
	}{
		"not sent":                      {llm.Failure{Class: llm.NotSent}, true},
		"refused":                       {llm.Failure{Class: llm.RateLimited, Report: llm.Report{WireRequests: 1}}, true},
		"ambiguous":                     {llm.Failure{Class: llm.Ambiguous, Report: llm.Report{WireRequests: 1}}, false},
		"cancelled after it was sent":   {llm.Failure{Class: llm.Cancelled, Report: llm.Report{WireRequests: 1}}, false},
		"refused output without usage":  {llm.Failure{Class: llm.RejectedOutput, Report: llm.Report{WireRequests: 1}}, false},
		"cancelled before it was sent":  {llm.Failure{Class: llm.Cancelled}, true},
		"refused output with its usage": {llm.Failure{Class: llm.RejectedOutput, Report: llm.Report{WireRequests: 1, Usage: &llm.Usage{InputTokens: 7, OutputTokens: 9}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			call := ledgerCall(tc.failure.Report, w, &tc.failure)
			if known := call.InputTokens != nil && call.OutputTokens != nil; known != tc.known {
				t.Errorf("known %v, want %v", known, tc.known)
			}
			if tc.failure.Usage != nil && *call.OutputTokens != 9 {
				t.Errorf("output tokens %d", *call.OutputTokens)
			}
			if call.Model != "asked" {
				t.Errorf("model %q", call.Model)
			}
		})
	}
}

func TestDecodeRecord(t *testing.T) {
	ref, err := decodeRecord([]byte(`{"v":1,"task":"0190a1b2-0000-7000-8000-000000000001","workspace":"w"}`))
	if err != nil || ref.Workspace != "w" {
		t.Fatal(ref, err)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"v":1,"task":"0190a1b2-0000-7000-8000-000000000001","workspace":"w"}`))
	f.Add([]byte(`{"v":1}`))
	f.Add([]byte{0xff, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		ref, err := decodeRecord(b)
		if (err == nil) != (ref.Workspace != "" && ref.TaskID.Version() < 16 && ref != (tasks.Ref{})) {
			t.Errorf("%+v, %v", ref, err)
		}
	})
}
