package sim

import (
	"context"
	"testing"
	"time"

	"github.com/fencepost/fencepost/llm"
)

func TestProviderInProcess(t *testing.T) {
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := s.Provider()
	limit := 2
	for _, c := range []struct {
		rule   string
		limit  *int
		class  llm.Class
		text   string
		finish string
	}{
		{`{}`, nil, "", "echo: hello", "stop"},
		{`{}`, &limit, "", "echo: he", "length"},
		{`{"text":"told"}`, nil, "", "told", "stop"},
		{`{"do":"empty"}`, nil, llm.RejectedOutput, "", ""},
		{`{"do":"garbage"}`, nil, llm.Ambiguous, "", ""},
		{`{"do":"status","status":429}`, nil, llm.RateLimited, "", ""},
		{`{"do":"status","status":503}`, nil, llm.Overloaded, "", ""},
		{`{"do":"status","status":429,"body":{"error":{"code":"insufficient_quota"}}}`, nil, llm.Quota, "", ""},
		{`{"do":"status","status":400}`, nil, llm.Permanent, "", ""},
		{`{"do":"reset_before_headers"}`, nil, llm.Ambiguous, "", ""},
		{`{"do":"reset_after_headers"}`, nil, llm.Ambiguous, "", ""},
		{`{"do":"cut_stream"}`, nil, llm.Ambiguous, "", ""},
		{`{"do":"hang"}`, nil, llm.Ambiguous, "", ""},
		{`{"body":"null"}`, nil, llm.Ambiguous, "", ""},
	} {
		list, err := parseRules([]byte("[" + c.rule + "]"))
		if err != nil {
			t.Fatal(err)
		}
		s.script.set(list)
		if err := s.ledger.clear(); err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if c.rule == `{"do":"hang"}` {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
		}
		a, err := p.Call(ctx, llm.Request{Model: "m", Content: "hello", MaxOutputTokens: c.limit})
		report := a.Report
		if c.class == "" {
			if err != nil || a.Text != c.text || a.FinishReason != c.finish || a.Usage == nil {
				t.Errorf("%s: %+v, %v", c.rule, a, err)
			}
		} else {
			f, ok := err.(*llm.Failure)
			if !ok || f.Class != c.class {
				t.Errorf("%s: %v, want %s", c.rule, err, c.class)
				continue
			}
			report = f.Report
		}
		if got := s.ledger.total(); report.WireRequests != 1 || got.Requests != 1 || got.InFlight != 0 {
			t.Errorf("%s: %+v, %+v", c.rule, report, got)
		}
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = p.Call(over, llm.Request{Model: "m", Content: "hello"})
	if f, ok := err.(*llm.Failure); !ok || f.Class != llm.NotSent || s.ledger.total().Requests != 1 {
		t.Errorf("%v", err)
	}
}
