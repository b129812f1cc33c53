package openai_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/google/go-cmp/cmp"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/openai"
)

// heard is what a client made of an answer: OpenAI's own client and ours must hear the same.
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

// said is what the vendor's client decoded, before anyone judges it.
type said struct {
	text, finish string
	refused      bool
	usage        *llm.Usage
	raw          *http.Response
	err          error
}

// heard judges it by the rules of package llm.
func (s said) heard() heard {
	out := heard{Usage: s.usage}
	if s.raw != nil {
		out.RequestID = s.raw.Header.Get("X-Request-Id")
	}
	var refusal *sdk.Error
	switch {
	case errors.As(s.err, &refusal):
		out.Status = refusal.StatusCode
		body := refusal.RawJSON()
		if strings.HasPrefix(body, "{") {
			body = `{"error":` + body + `}`
		}
		out.Class = llm.Refused(llm.Response{Status: out.Status, Header: refusal.Response.Header, Body: []byte(body)}, llm.Wire{}).Class
		return out
	case s.err != nil:
		out.Class = llm.Ambiguous
		return out
	}
	if s.refused && s.finish == "stop" {
		s.finish = "refusal"
	}
	a, err := llm.Finish(s.finish, s.text, llm.Report{})
	judged := ours(a, err)
	out.Text, out.Finish, out.Class = judged.Text, judged.Finish, judged.Class
	return out
}

const question = "the question is häßlich, 長い and 🦉"

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
	{rule: `{}`, limit: 2, expect: "length"},
	{rule: `{"do":"empty","output_tokens":2,"reasoning_tokens":2}`, expect: string(llm.RejectedOutput)},
	{rule: `{"do":"refuse","text":"I will not"}`, expect: string(llm.RejectedOutput)},
	{rule: `{"do":"tool_call"}`, expect: string(llm.RejectedOutput)},
	{rule: `{"finish_reason":"content_filter"}`, expect: string(llm.RejectedOutput)},
	{rule: `{"finish_reason":"galaxy"}`, expect: string(llm.Ambiguous)},
	{rule: `{"finish_reason":""}`, expect: string(llm.Ambiguous)},
	{rule: `{"headers":{"X-Request-Id":"req_given"}}`, expect: "stop"},
	{rule: `{"do":"status","status":400}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":401,"body":{"error":{"message":"no key","type":"invalid_request_error","code":"invalid_api_key"}}}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":403}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":404,"body":{"error":{"message":"no model","type":"invalid_request_error","code":"model_not_found"}}}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":408}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"status","status":409}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"status","status":413}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":422}`, expect: string(llm.Permanent)},
	{rule: `{"do":"status","status":429,"headers":{"Retry-After":"7"}}`, expect: string(llm.RateLimited)},
	{rule: `{"do":"status","status":429,"headers":{"Retry-After-Ms":"1500","X-Should-Retry":"true"}}`, expect: string(llm.RateLimited)},
	{rule: `{"do":"status","status":429,"body":{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}}`, expect: string(llm.Quota)},
	{rule: `{"do":"status","status":500}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"status","status":502,"body":"<html>bad gateway</html>"}`, expect: string(llm.Ambiguous)},
	{rule: `{"do":"status","status":503}`, expect: string(llm.Overloaded)},
	{rule: `{"do":"status","status":503,"headers":{"X-Should-Retry":"true"},"body":"<html>"}`, expect: string(llm.Ambiguous)},
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
	{rule: `{"body":{"error":{"message":"disguised","code":500}}}`, expect: string(llm.Ambiguous), blind: true},
}

// options leave the environment out of it: services made from options read none.
func options(w *world) []option.RequestOption {
	return []option.RequestOption{
		option.WithBaseURL(w.http.URL + "/v1/"), option.WithAPIKey(key), option.WithMaxRetries(0), option.WithHTTPClient(w.http.Client()),
	}
}

func (w *world) idle() { w.http.Client().CloseIdleConnections() }

// TestOracle shows that OpenAI's own client and ours hear the same in every simulated answer, through both APIs, streamed
// and not, each with one request; and that ours accepts none that is not whole, where the vendor's does.
func TestOracle(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.idle)
	for _, api := range []struct {
		name string
		ask  func(w *world, limit int, stream bool) said
		ours func(t *testing.T, cfg openai.Config) llm.Provider
	}{
		{"chat", askChat, func(t *testing.T, cfg openai.Config) llm.Provider { return newProvider(t, cfg) }},
		{"responses", askResponses, oracleResponses},
	} {
		for _, stream := range []bool{false, true} {
			p := api.ours(t, openai.Config{BaseURL: w.http.URL + "/v1", Stream: stream})
			for _, c := range oracles {
				t.Run(fmt.Sprintf("%s/stream=%v/%.60s", api.name, stream, c.rule), func(t *testing.T) {
					w.control(t, "PUT", "/sim/rules", "["+c.rule+"]")
					req := llm.Request{Model: "m", System: "be brief", Content: question}
					if c.limit > 0 {
						req.MaxOutputTokens = &c.limit
					}
					w.control(t, "DELETE", "/sim/requests", "")
					got := ours(p.Call(context.Background(), req))
					theirs := api.ask(w, c.limit, stream)
					w.idle() // net/http repeats a request of its own accord on a used connection
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

func oracleResponses(t *testing.T, cfg openai.Config) llm.Provider {
	cfg.APIKey = key
	p, err := openai.NewResponses(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func askChat(w *world, limit int, stream bool) (out said) {
	params := sdk.ChatCompletionNewParams{
		Model:    "m",
		Messages: []sdk.ChatCompletionMessageParamUnion{sdk.SystemMessage("be brief"), sdk.UserMessage(question)},
	}
	if limit > 0 {
		params.MaxCompletionTokens = sdk.Int(int64(limit))
	}
	usage := func(u sdk.CompletionUsage) *llm.Usage {
		cached, written := u.PromptTokensDetails.CachedTokens, u.PromptTokensDetails.CacheWriteTokens
		return &llm.Usage{
			InputTokens: u.PromptTokens - cached - written, CachedInputTokens: cached, CacheWriteTokens: written,
			OutputTokens: u.CompletionTokens, ReasoningTokens: u.CompletionTokensDetails.ReasoningTokens,
		}
	}
	service := sdk.NewChatCompletionService(options(w)...)
	if !stream {
		res, err := service.New(context.Background(), params, option.WithResponseInto(&out.raw))
		if out.err = err; res == nil || len(res.Choices) == 0 { // nil without an error: the answer was null
			return out
		}
		choice := res.Choices[0]
		out.text, out.finish, out.refused = choice.Message.Content, choice.FinishReason, choice.Message.Refusal != ""
		if res.JSON.Usage.Valid() {
			out.usage = usage(res.Usage)
		}
		return out
	}
	params.StreamOptions.IncludeUsage = sdk.Bool(true)
	events := service.NewStreaming(context.Background(), params, option.WithResponseInto(&out.raw))
	defer events.Close()
	for events.Next() {
		c := events.Current()
		if c.JSON.Usage.Valid() {
			out.usage = usage(c.Usage)
		}
		for _, choice := range c.Choices {
			out.text += choice.Delta.Content
			out.refused = out.refused || choice.Delta.Refusal != ""
			if choice.FinishReason != "" {
				out.finish = choice.FinishReason
			}
		}
	}
	out.err = events.Err()
	return out
}

// of reads a response as the vendor's client decoded it.
func (out *said) of(res *responses.Response) {
	switch res.Status {
	case responses.ResponseStatusCompleted:
		out.finish = "stop"
	case responses.ResponseStatusIncomplete:
		if out.finish = res.IncompleteDetails.Reason; out.finish == "max_output_tokens" {
			out.finish = "length"
		}
	}
	out.text = res.OutputText()
	for _, item := range res.Output {
		if item.Type == "function_call" {
			out.finish = "tool_calls"
		}
		for _, part := range item.Content {
			out.refused = out.refused || part.Type == "refusal"
		}
	}
	if res.JSON.Usage.Valid() {
		u := res.Usage
		cached, written := u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens
		out.usage = &llm.Usage{
			InputTokens: u.InputTokens - cached - written, CachedInputTokens: cached, CacheWriteTokens: written,
			OutputTokens: u.OutputTokens, ReasoningTokens: u.OutputTokensDetails.ReasoningTokens,
		}
	}
}

func responseParams(limit int) responses.ResponseNewParams {
	params := responses.ResponseNewParams{
		Model: "m", Instructions: sdk.String("be brief"), Input: responses.ResponseNewParamsInputUnion{OfString: sdk.String(question)},
	}
	if limit > 0 {
		params.MaxOutputTokens = sdk.Int(int64(limit))
	}
	return params
}

func askResponses(w *world, limit int, stream bool) (out said) {
	service := responses.NewResponseService(options(w)...)
	if !stream {
		res, err := service.New(context.Background(), responseParams(limit), option.WithResponseInto(&out.raw))
		if out.err = err; res != nil { // nil without an error: the answer was null
			out.of(res)
		}
		return out
	}
	events := service.NewStreaming(context.Background(), responseParams(limit), option.WithResponseInto(&out.raw))
	defer events.Close()
	pieces := ""
	for events.Next() {
		e := events.Current()
		switch e.Type {
		case "response.output_text.delta":
			pieces += e.Delta
		case "response.completed", "response.incomplete", "response.failed":
			out.of(&e.Response)
		}
	}
	if out.err = events.Err(); out.err == nil && out.finish != "" && pieces != out.text {
		out.err = fmt.Errorf("the pieces %.100q are not the text %.100q", pieces, out.text)
	}
	return out
}
