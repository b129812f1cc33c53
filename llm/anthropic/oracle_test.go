package anthropic_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/google/go-cmp/cmp"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/anthropic"
)

// heard is what a client made of an answer: Anthropic's own client and ours must hear the same.
type heard struct {
	Text, Finish string
	Class        llm.Class // empty: accepted
	Status       int       // of a refusal, 0 otherwise
	RequestID    string
	Usage        *llm.Usage
}

// ours is what the adapter heard.
func ours(a llm.Answer, err error) heard {
	if f := (*llm.Failure)(nil); errors.As(err, &f) {
		h := heard{Class: f.Class, RequestID: f.RequestID, Usage: f.Usage}
		if f.Status > 299 {
			h.Status = f.Status
		}
		return h
	}
	return heard{Text: a.Text, Finish: a.FinishReason, RequestID: a.RequestID, Usage: a.Usage}
}

const (
	question   = "the question is häßlich, 長い and 🦉"
	oracleKey  = "sk-ant-very-secret-key-000"
	plainLimit = 4096
)

// oracles are simulated answers. The expected word is the class, or the finish reason of an accepted answer.
var oracles = []struct {
	rule   string
	expect string
	limit  int
	blind  bool // the vendor's client takes it for whole, which it is not
}{
	{rule: `{}`, expect: "stop"},
	{rule: `{"text":"` + strings.Repeat(`long 長い\n`, 1000) + `"}`, expect: "stop"},
	{rule: `{"text":"\"quotes\", \\ and \u2028, <b>&amp;</b>\t🦉 e\u0301"}`, expect: "stop"},
	{rule: `{"text":"NUL and halves","do":"bad_text"}`, expect: "stop"},
	{rule: `{"input_tokens":1000,"cached_tokens":600,"cache_write_tokens":300,"output_tokens":50}`, expect: "stop"},
	{rule: `{"output_tokens":500,"reasoning_tokens":400}`, expect: "stop"},
	{rule: `{"do":"no_usage"}`, expect: "stop"},
	{rule: `{"do":"early_usage"}`, expect: "stop"},
	{rule: `{"line_bytes":1000000,"text":"wide lines"}`, expect: "stop"},
	{rule: `{"finish_reason":"stop_sequence"}`, expect: "stop"},
	{rule: `{}`, limit: 2, expect: "length"},
	{rule: `{"do":"empty","output_tokens":2}`, expect: string(llm.RejectedOutput)},
	{rule: `{"do":"refuse","text":"I will not"}`, expect: string(llm.RejectedOutput)},
	{rule: `{"do":"tool_call"}`, expect: string(llm.RejectedOutput)},
	{rule: `{"finish_reason":"pause_turn"}`, expect: string(llm.RejectedOutput)},
	{rule: `{"finish_reason":"galaxy"}`, expect: string(llm.Ambiguous)},
	{rule: `{"finish_reason":""}`, expect: string(llm.Ambiguous)},
	{rule: `{"headers":{"Request-Id":"req_given"}}`, expect: "stop"},
	{rule: `{"do":"status","status":400}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":400,"body":{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits"}}}`, expect: string(llm.Quota)},
	{rule: `{"do":"status","status":401}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":402}`, expect: string(llm.Quota)},
	{rule: `{"do":"status","status":403}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":404}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":408}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"status","status":409}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"status","status":413}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":422}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":429,"headers":{"Retry-After":"7"}}`, expect: string(llm.RateLimited)},
	{rule: `{"do":"status","status":429,"headers":{"X-Should-Retry":"true"}}`, expect: string(llm.RateLimited)},
	{rule: `{"do":"status","status":429,"body":{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}}`, expect: string(llm.Quota)},
	{rule: `{"do":"status","status":500}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"status","status":502,"body":"<html>bad gateway</html>"}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"status","status":503}`, expect: string(llm.Overloaded)},
	{rule: `{"do":"status","status":504}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"status","status":529}`, expect: string(llm.Overloaded)},
	{rule: `{"do":"garbage"}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"reset_before_headers"}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"reset_after_headers"}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"cut_stream"}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"cut_event","text":"ééééééééééééééé"}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"end_early"}`, expect: string(llm.Ambiguous), blind: true},
	{rule: `{"do":"error_after_output"}`, expect: string(llm.Ambiguous), blind: true},
	{rule: `{"do":"fail"}`, expect: string(llm.Ambiguous), blind: true},
	{rule: `{"body":"null"}`, expect: string(llm.Ambiguous), blind: true},
	{rule: `{"body":{"type":"error","error":{"type":"api_error","message":"disguised"}}}`, expect: string(llm.Ambiguous), blind: true},
}

// TestOracle shows that Anthropic's own client and ours hear the same in every simulated answer, streamed and not, each
// with one request; and that ours accepts none that is not whole, where the vendor's does.
func TestOracle(t *testing.T) {
	w := newWorld(t)
	idle := w.http.Client().CloseIdleConnections
	t.Cleanup(idle)
	for _, stream := range []bool{false, true} {
		p, err := anthropic.New(anthropic.Config{BaseURL: w.http.URL, APIKey: oracleKey, Stream: stream})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		for _, c := range oracles {
			t.Run(fmt.Sprintf("stream=%v/%.60s", stream, c.rule), func(t *testing.T) {
				w.control(t, "PUT", "/sim/rules", "["+c.rule+"]")
				w.control(t, "DELETE", "/sim/requests", "")
				req := llm.Request{Model: "m", System: "be brief", Content: question}
				limit := plainLimit
				if c.limit > 0 {
					limit, req.MaxOutputTokens = c.limit, &c.limit
				}
				got := ours(p.Call(context.Background(), req))
				theirs := ask(w, limit, stream)
				idle() // net/http repeats a request of its own accord on a used connection
				if n := w.listed(t); n != 2 {
					t.Errorf("%d requests of two calls", n)
				}
				if word := got.Finish + string(got.Class); word != c.expect {
					t.Errorf("%s, want %s: %.300s", word, c.expect, fmt.Sprintf("%+v", got))
				}
				if c.blind {
					return
				}
				want := theirs.heard()
				got.RequestID = next(got.RequestID)
				got.Text, want.Text = replaced(got.Text), replaced(want.Text)
				if got.Class != "" && got.Class != llm.RejectedOutput {
					got.Usage, want.Usage = nil, nil // of a broken answer each reports what it saw
					if got.Status == 0 {
						got.RequestID, want.RequestID = "", ""
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-theirs +ours, their error %v\n%s", theirs.err, diff)
				}
			})
		}
	}
}

// next is the id of the request behind the one of that id, as the simulator counts; one that a rule gave stays.
func next(id string) string {
	n := 0
	if _, err := fmt.Sscanf(id, "req_sim_%d", &n); err != nil {
		return id
	}
	return fmt.Sprintf("req_sim_%d", n+1)
}

// replaced makes runs of replacement characters one: how many bad bytes make one is not agreed on.
func replaced(s string) string {
	for strings.Contains(s, "\uFFFD\uFFFD") {
		s = strings.ReplaceAll(s, "\uFFFD\uFFFD", "\uFFFD")
	}
	return s
}

// said is what the vendor's client decoded, before anyone judges it.
type said struct {
	text, finish string
	usage        *llm.Usage
	raw          *http.Response
	err          error
}

// heard judges it by the rules of package llm.
func (s said) heard() heard {
	out := heard{Usage: s.usage}
	if s.raw != nil {
		out.RequestID = s.raw.Header.Get("Request-Id")
	}
	var refusal *sdk.Error
	switch {
	case errors.As(s.err, &refusal) && refusal.StatusCode > 299:
		out.Status = refusal.StatusCode
		out.Class = llm.Refused(llm.Response{Status: out.Status, Header: refusal.Response.Header, Body: []byte(refusal.RawJSON())}, llm.Wire{}).Class
		out.RequestID = refusal.RequestID
		return out
	case s.err != nil:
		out.Class = llm.Ambiguous
		return out
	}
	a, err := llm.Finish(s.finish, s.text, llm.Report{})
	judged := ours(a, err)
	out.Text, out.Finish, out.Class = judged.Text, judged.Finish, judged.Class
	return out
}

func ask(w *world, limit int, stream bool) (out said) {
	service := sdk.NewMessageService(
		option.WithoutEnvironmentDefaults(), option.WithoutOpenTelemetry(), option.WithBaseURL(w.http.URL), option.WithAPIKey(oracleKey),
		option.WithMaxRetries(0), option.WithHTTPClient(w.http.Client()),
	)
	params := sdk.MessageNewParams{
		Model: "m", MaxTokens: int64(limit), System: []sdk.TextBlockParam{{Text: "be brief"}},
		Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock(question))},
	}
	var whole *sdk.Message
	counted := false // by the last word on it
	if stream {
		whole = &sdk.Message{}
		events := service.NewStreaming(context.Background(), params, option.WithResponseInto(&out.raw))
		defer events.Close()
		for events.Next() {
			e := events.Current()
			if out.err = whole.Accumulate(e); out.err != nil {
				return out
			}
			counted = counted || e.Type == "message_delta" && e.Usage.JSON.OutputTokens.Valid()
		}
		out.err = events.Err()
	} else {
		whole, out.err = service.New(context.Background(), params, option.WithResponseInto(&out.raw))
		counted = whole != nil && whole.JSON.Usage.Valid()
	}
	if whole == nil {
		return out
	}
	for _, b := range whole.Content {
		if b.Type == "text" {
			out.text += b.Text
		}
	}
	out.finish = string(whole.StopReason)
	if u := whole.Usage; counted {
		out.usage = &llm.Usage{
			InputTokens: u.InputTokens, CachedInputTokens: u.CacheReadInputTokens, CacheWriteTokens: u.CacheCreationInputTokens,
			OutputTokens: u.OutputTokens, ReasoningTokens: u.OutputTokensDetails.ThinkingTokens,
		}
	}
	return out
}
