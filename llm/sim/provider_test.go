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
		{`{"do":"stall"}`, nil, llm.Ambiguous, "", ""},
		{`{"do":"end_early"}`, nil, llm.Ambiguous, "", ""},
		{`{"do":"error_after_output"}`, nil, llm.Ambiguous, "", ""},
		{`{"do":"no_marker"}`, nil, "", "echo: hello", "stop"},
		{`{"do":"bad_text","text":"a"}`, nil, "", "a\uFFFD", "stop"},
		{`{"do":"refuse"}`, nil, llm.RejectedOutput, "", ""},
		{`{"do":"tool_call"}`, nil, llm.RejectedOutput, "", ""},
		{`{"finish_reason":"odd"}`, nil, llm.Ambiguous, "", ""},
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
		if c.rule == `{"do":"hang"}` || c.rule == `{"do":"stall"}` {
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

// History is heard, the pieces are told, and the kinds of tokens are kept apart.
func TestProviderInProcessTellsAll(t *testing.T) {
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := parseRules([]byte(`[{"input_tokens":10,"cached_tokens":4,"cache_write_tokens":3,"output_tokens":8,"reasoning_tokens":2},{"do":"no_usage"}]`))
	if err != nil {
		t.Fatal(err)
	}
	one := 1
	list[0].Times = &one
	s.script.set(list)
	told := ""
	req := llm.Request{
		Model: "m", System: "12345678", Content: "and now? 0123456789", Text: func(piece string) { told += piece },
		History: []llm.Message{{Role: llm.RoleUser, Text: "1234"}, {Role: llm.RoleAssistant, Text: "12345678"}},
	}
	a, err := s.Provider().Call(context.Background(), req)
	want := llm.Usage{InputTokens: 3, CachedInputTokens: 4, CacheWriteTokens: 3, OutputTokens: 8, ReasoningTokens: 2}
	if err != nil || a.Text != "echo: and now? 0123456789" || told != a.Text || *a.Usage != want {
		t.Errorf("%+v, %+v, %v, told %q", a, a.Usage, err, told)
	}
	if e := s.ledger.after(0, 1)[0]; e.Messages != 3 || e.SystemBytes != 8 || e.Content != req.Content || e.InputTokens != 10 {
		t.Errorf("%+v", e)
	}
	if a, err = s.Provider().Call(context.Background(), req); err != nil || a.Usage != nil {
		t.Errorf("%+v, %v", a, err)
	}
	if e := s.ledger.after(1, 1)[0]; e.InputTokens != tokens(8+4+8+19) {
		t.Errorf("%+v", e)
	}
}
