package openai

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fencepost/fencepost/llm"
)

func TestDecodeAnswer(t *testing.T) {
	const usage = `"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}`
	ok := func(content, finish string) string {
		return `{"id":"chatcmpl-1","model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":` + content + `},"finish_reason":` + finish + `}],` + usage + `}`
	}
	for _, c := range []struct {
		name  string
		body  string
		class llm.Class
		text  string
		usage bool
	}{
		{"stop", ok(`"hi"`, `"stop"`), "", "hi", true},
		{"length", ok(`"hi"`, `"length"`), "", "hi", true},
		{"trailing space", ok(`"hi"`, `"stop"`) + "\n\n", "", "hi", true},
		{"NUL", ok(`"a\u0000b"`, `"stop"`), "", "ab", true},
		{"lone surrogate", ok(`"a\ud800b"`, `"stop"`), "", "a\uFFFDb", true},
		{"invalid UTF-8", ok("\"a\xff\xfeb\"", `"stop"`), "", "a\uFFFD\uFFFDb", true},
		{"no usage", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`, "", "hi", false},
		{"usage null", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":null}`, "", "hi", false},
		{"usage half", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5}}`, "", "hi", false},
		{"usage negative", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":-1}}`, "", "hi", false},
		{"usage a string", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":"many"}`, "", "hi", false},
		{"usage too large", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1e30}}`, "", "hi", false},
		{"error null", `{"error":null,"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`, "", "hi", false},
		{"two choices", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"},{"message":{"content":"ho"},"finish_reason":null}]}`, "", "hi", false},

		{"empty", ok(`""`, `"stop"`), llm.RejectedOutput, "", true},
		{"null content", ok(`null`, `"stop"`), llm.RejectedOutput, "", true},
		{"reasoning only", ok(`""`, `"length"`), llm.RejectedOutput, "", true},
		{"filter", ok(`"half"`, `"content_filter"`), llm.RejectedOutput, "", true},
		{"tool", ok(`null`, `"tool_calls"`), llm.RejectedOutput, "", true},
		{"refusal", `{"choices":[{"message":{"content":null,"refusal":"I cannot"},"finish_reason":"stop"}],` + usage + `}`, llm.RejectedOutput, "", true},

		{"finish null", ok(`"hi"`, `null`), llm.Ambiguous, "", true},
		{"finish unknown", ok(`"hi"`, `"eos"`), llm.Ambiguous, "", true},
		{"finish a number", ok(`"hi"`, `3`), llm.Ambiguous, "", true},
		{"content a list", ok(`[{"text":"hi"}]`, `"stop"`), llm.Ambiguous, "", true},
		{"no choices", `{"choices":[],` + usage + `}`, llm.Ambiguous, "", true},
		{"choices null", `{"choices":null}`, llm.Ambiguous, "", false},
		{"no message", `{"choices":[{"finish_reason":"stop"}]}`, llm.Ambiguous, "", false},
		{"null", `null`, llm.Ambiguous, "", false},
		{"object", `{}`, llm.Ambiguous, "", false},
		{"list", `[]`, llm.Ambiguous, "", false},
		{"nothing", ``, llm.Ambiguous, "", false},
		{"html", `<html>log in</html>`, llm.Ambiguous, "", false},
		{"cut", ok(`"hi"`, `"stop"`)[:60], llm.Ambiguous, "", false},
		{"trailing garbage", ok(`"hi"`, `"stop"`) + "x", llm.Ambiguous, "", false},
		{"two values", ok(`"hi"`, `"stop"`) + ok(`"hi"`, `"stop"`), llm.Ambiguous, "", false},
		{"error object", `{"error":{"message":"upstream died","code":502}}`, llm.Ambiguous, "", false},
		{"error string", `{"error":"upstream died"}`, llm.Ambiguous, "", false},
		{"error beside a choice", `{"error":{"message":"m"},"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],` + usage + `}`, llm.Ambiguous, "", true},
		{"finish error", ok(`"hi"`, `"error"`), llm.Ambiguous, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := llm.Response{Status: 200, Header: http.Header{}, Body: []byte(c.body)}
			a, err := decodeAnswer(resp, llm.Wire{Requests: 1}, false)
			report := a.Report
			if c.class == "" {
				if err != nil || a.Text != c.text {
					t.Fatalf("%+v, %v", a, err)
				}
			} else {
				var f *llm.Failure
				if !errors.As(err, &f) || f.Class != c.class {
					t.Fatalf("%+v, %v; want %s", a, err, c.class)
				}
				report = f.Report
			}
			if report.WireRequests != 1 || (report.Usage != nil) != c.usage {
				t.Errorf("report %+v", report)
			}
			if c.usage && *report.Usage != (llm.Usage{InputTokens: 5, OutputTokens: 7}) {
				t.Errorf("usage %+v", *report.Usage)
			}
		})
	}
}

func TestDecodeUsage(t *testing.T) {
	for usage, want := range map[string]llm.Usage{
		`"prompt_tokens":50,"completion_tokens":70,"prompt_tokens_details":{"cached_tokens":30,"cache_write_tokens":15},"completion_tokens_details":{"reasoning_tokens":60}`: {
			InputTokens: 5, CachedInputTokens: 30, CacheWriteTokens: 15, OutputTokens: 70, ReasoningTokens: 60},
		`"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":null,"completion_tokens_details":{}`:             {InputTokens: 5, OutputTokens: 7},
		`"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":"x","completion_tokens_details":[1]`:             {InputTokens: 5, OutputTokens: 7},
		`"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":-3,"cache_write_tokens":"2"}`:   {InputTokens: 5, OutputTokens: 7},
		`"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":4}`:      {InputTokens: 0, CachedInputTokens: 4, CacheWriteTokens: 1, OutputTokens: 7},
		`"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":9}`:                             {CachedInputTokens: 5, OutputTokens: 7},
		`"prompt_tokens":5,"completion_tokens":7,"total_tokens":12,"completion_tokens_details":{"reasoning_tokens":7}`:    {InputTokens: 5, OutputTokens: 7, ReasoningTokens: 7},
		`"prompt_tokens":5,"completion_tokens":7,"total_tokens":112,"completion_tokens_details":{"reasoning_tokens":100}`: {InputTokens: 5, OutputTokens: 107, ReasoningTokens: 100},
		`"prompt_tokens":5,"completion_tokens":7,"total_tokens":50,"completion_tokens_details":{"reasoning_tokens":100}`:  {InputTokens: 5, OutputTokens: 7, ReasoningTokens: 7},
		`"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807,"total_tokens":9223372036854775807,"completion_tokens_details":{"reasoning_tokens":1}`: {
			InputTokens: 9223372036854775807, OutputTokens: 9223372036854775807, ReasoningTokens: 1},
	} {
		if got := decodeUsage([]byte(`{"usage":{` + usage + `}}`)); got == nil || *got != want {
			t.Errorf("%s: %+v, want %+v", usage, got, want)
		}
	}
}

func TestEncode(t *testing.T) {
	temp, limit := 0.5, 9
	req := llm.Request{Model: "m", System: "s\x00", Content: "c\xff", Temperature: &temp, MaxOutputTokens: &limit}
	for legacy, want := range map[bool]string{
		false: `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"c�"}],"temperature":0.5,"max_completion_tokens":9}`,
		true:  `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"c�"}],"temperature":0.5,"max_tokens":9}`,
	} {
		if got, err := (chat{legacy: legacy}).encode(req, false); err != nil || string(got) != want {
			t.Errorf("%s, %v", got, err)
		}
	}
	if got, err := (chat{}).encode(llm.Request{Model: "m", Content: "c"}, false); err != nil || string(got) != `{"model":"m","messages":[{"role":"user","content":"c"}]}` {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzDecodeAnswer(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
		`null`, `{"error":"x"}`, `{"error":{"message":"x"}}`, `{"choices":[null]}`, `{"id":3,"model":{},"choices":[{"message":null}]}`,
		"{\"choices\":[{\"message\":{\"content\":\"\xff\\u0000\\ud800\"},\"finish_reason\":\"length\"}]}", `[]`, `x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := decodeAnswer(llm.Response{Status: 200, Header: http.Header{}, Body: body}, llm.Wire{Requests: 1}, true, "sk-key-of-the-fuzzer")
		if err == nil {
			if !json.Valid(body) || a.Text == "" || !utf8.ValidString(a.Text) || strings.Contains(a.Text, "\x00") || a.FinishReason == "" {
				t.Errorf("accepted %+v", a)
			}
			return
		}
		var fail *llm.Failure
		if !errors.As(err, &fail) || fail.Class != llm.Ambiguous && fail.Class != llm.RejectedOutput {
			t.Fatalf("%T %v", err, err)
		}
		if !utf8.ValidString(fail.Message) || len(fail.Message) > 500 || fail.WireRequests != 1 {
			t.Errorf("%+v", fail)
		}
	})
}
