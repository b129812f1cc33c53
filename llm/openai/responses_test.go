package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/openai"
)

func newResponses(t testing.TB, s *scripted, cfg openai.Config) *openai.Responses {
	t.Helper()
	cfg.BaseURL, cfg.APIKey = s.URL+"/v1", key
	r, err := openai.NewResponses(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

const counts = `"usage":{"input_tokens":50,"output_tokens":70,"total_tokens":120,"input_tokens_details":{"cached_tokens":30,"cache_write_tokens":5},"output_tokens_details":{"reasoning_tokens":60}}`

// response is a body; more is put behind its status.
func response(status, more string) string {
	return `{"id":"resp_1","object":"response","model":"m-1","status":"` + status + `"` + more + `}`
}

func message(text string) string {
	b, _ := json.Marshal(text)
	return `{"type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":` + string(b) + `,"annotations":[]}]}`
}

func completed(text string) string {
	return response("completed", `,"error":null,"incomplete_details":null,"output":[{"type":"reasoning","summary":[]},`+message(text)+`],`+counts)
}

// What a response says, whole or as the last event of a stream, comes to the same.
func TestResponseAnswers(t *testing.T) {
	const item = `,"output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],`
	failed := func(code, text, more string) string {
		return response("failed", `,"output":[],"error":{"code":"`+code+`","message":"`+text+`"}`+more)
	}
	for _, c := range []struct {
		name, body   string
		class        llm.Class
		text, finish string
		usage        bool
		says         string
	}{
		{"whole", completed("hi"), "", "hi", "stop", true, ""},
		{"two messages", response("completed", `,"output":[`+message("a")+`,`+message("b")+`],`+counts), "", "ab", "stop", true, ""},
		{"NUL and lone surrogate", strings.Replace(completed("x"), `"x"`, `"a\u0000b\ud800"`, 1), "", "ab\uFFFD", "stop", true, ""},
		{"unknown part", response("completed", `,"output":[{"type":"message","content":[{"type":"else"},{"type":"output_text","text":"hi"}]}],`+counts), "", "hi", "stop", true, ""},
		{"no usage", response("completed", `,"output":[`+message("hi")+`],"usage":null`), "", "hi", "stop", false, ""},
		{"usage of no form", response("completed", `,"output":[`+message("hi")+`],"usage":"many"`), "", "hi", "stop", false, ""},
		{"cut by the limit", response("incomplete", item+`"incomplete_details":{"reason":"max_output_tokens"},`+counts), "", "hi", "length", true, ""},

		{"reasoning used the limit up", response("incomplete", `,"output":[{"type":"reasoning"}],"incomplete_details":{"reason":"max_output_tokens"},`+counts), llm.RejectedOutput, "", "", true, "before any text"},
		{"filter", response("incomplete", item+`"incomplete_details":{"reason":"content_filter"},`+counts), llm.RejectedOutput, "", "", true, "filter"},
		{"refusal", response("completed", `,"output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}],`+counts), llm.RejectedOutput, "", "", true, "refused"},
		{"refusal beside text", response("completed", `,"output":[`+message("hi")+`,{"type":"message","content":[{"type":"refusal","refusal":"no"}]}],`+counts), llm.RejectedOutput, "", "", true, "refused"},
		{"empty", response("completed", `,"output":[],`+counts), llm.RejectedOutput, "", "", true, "empty"},
		{"blank", response("completed", `,"output":[`+message(" \n")+`],`+counts), llm.RejectedOutput, "", "", true, "empty"},
		{"tool", response("completed", `,"output":[`+message("hi")+`,{"type":"function_call","name":"f","arguments":"{}"}],`+counts), llm.RejectedOutput, "", "", true, "tool"},
		{"item of an unknown kind", response("completed", `,"output":[`+message("hi")+`,{"type":"mcp_list_tools"}],`+counts), llm.RejectedOutput, "", "", true, "tool"},

		{"incomplete for no reason", response("incomplete", item+`"incomplete_details":null,`+counts), llm.Ambiguous, "", "", true, "no finish reason"},
		{"incomplete for a new reason", response("incomplete", item+`"incomplete_details":{"reason":"max_dollars"},`+counts), llm.Ambiguous, "", "", true, "max_dollars"},
		{"cancelled", response("cancelled", item+counts), llm.Ambiguous, "", "", true, "cancelled"},
		{"error beside completed", response("completed", item+`"error":{"code":"server_error","message":"m"},`+counts), llm.Ambiguous, "", "", true, "server_error"},

		{"failed: server", failed("server_error", "m", ""), llm.Ambiguous, "", "", false, "server_error"},
		{"failed: rate", failed("rate_limit_exceeded", "m", ""), llm.RateLimited, "", "", false, "rate_limit_exceeded"},
		{"failed: rate, after output", failed("rate_limit_exceeded", "m", ","+counts), llm.Ambiguous, "", "", true, ""},
		{"failed: quota code", failed("insufficient_quota", "m", ""), llm.Quota, "", "", false, ""},
		{"failed: quota text", failed("rate_limit_exceeded", "You exceeded your current quota, please check your plan", ""), llm.Quota, "", "", false, ""},
		{"failed: quota text after output", failed("server_error", "You exceeded your current quota", ","+counts), llm.Quota, "", "", true, ""},
		{"failed: prompt", failed("invalid_prompt", "m", ""), llm.Permanent, "", "", false, ""},
		{"failed: image", failed("image_too_large", "m", ""), llm.Permanent, "", "", false, ""},
		{"failed: policy", failed("bio_policy", "m", ""), llm.RejectedOutput, "", "", false, ""},
		{"failed: image policy", failed("image_content_policy_violation", "m", ""), llm.RejectedOutput, "", "", false, ""},
		{"failed: unknown", failed("nobody_knows", "m", ""), llm.Ambiguous, "", "", false, "nobody_knows"},
		{"failed: no error", response("failed", `,"error":null,"output":[]`), llm.Ambiguous, "", "", false, ""},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(c.name+map[bool]string{false: "/whole", true: "/streamed"}[stream], func(t *testing.T) {
				s := serve(t, func(w http.ResponseWriter, r asked) {
					w.Header().Set("X-Request-Id", "req_1")
					if !stream {
						answerJSON(w, 200, c.body)
						return
					}
					var head struct{ Status string }
					_ = json.Unmarshal([]byte(c.body), &head)
					answerEvents(w, `{"type":"response.created","sequence_number":0,"response":`+response("in_progress", `,"output":[]`)+`}`,
						`{"type":"response.something_new","sequence_number":1,"delta":{"a":1}}`,
						`{"type":"response.`+head.Status+`","sequence_number":2,"response":`+c.body+`}`)
				})
				a, err := newResponses(t, s, openai.Config{Stream: stream}).Call(context.Background(), llm.Request{Model: "m", Content: "c"})
				report := a.Report
				if c.class == "" {
					if err != nil || a.Text != c.text || a.FinishReason != c.finish {
						t.Fatalf("%+v, %v", a, err)
					}
				} else {
					var f *llm.Failure
					if !errors.As(err, &f) || f.Class != c.class || !strings.Contains(f.Message, c.says) || a.Text != "" {
						t.Fatalf("%+v, %v; want %s %q", a, err, c.class, c.says)
					}
					report = f.Report
				}
				if report.WireRequests != 1 || s.asks("") != 1 || report.RequestID != "req_1" || report.Model != "m-1" || report.Lookups != 0 {
					t.Errorf("%+v", report)
				}
				want := llm.Usage{InputTokens: 15, CachedInputTokens: 30, CacheWriteTokens: 5, OutputTokens: 70, ReasoningTokens: 60}
				if (report.Usage != nil) != c.usage || c.usage && *report.Usage != want {
					t.Errorf("usage %+v", report.Usage)
				}
			})
		}
	}
}

// Bodies of a 2xx that are no response, or none that has ended.
func TestResponsesThatAreNone(t *testing.T) {
	for body, class := range map[string]llm.Class{
		``: llm.Ambiguous, `null`: llm.Ambiguous, `{}`: llm.Ambiguous, `[]`: llm.Ambiguous, `<html>log in</html>`: llm.Ambiguous,
		completed("hi")[:60]:  llm.Ambiguous,
		completed("hi") + "x": llm.Ambiguous,
		strings.Replace(completed("hi"), `"completed"`, `null`, 1):                   llm.Ambiguous,
		strings.Replace(completed("hi"), `"completed"`, `3`, 1):                      llm.Ambiguous,
		strings.Replace(completed("hi"), `"completed"`, `"done"`, 1):                 llm.Ambiguous,
		strings.Replace(completed("hi"), `"completed"`, `"in_progress"`, 1):          llm.Ambiguous,
		strings.Replace(completed("hi"), `"completed"`, `"queued"`, 1):               llm.Ambiguous,
		strings.Replace(completed("hi"), `"hi"`, `["hi"]`, 1):                        llm.Ambiguous,
		`{"error":"upstream died"}`:                                                  llm.Ambiguous,
		`{"error":{"message":"slow","code":429}}`:                                    llm.RateLimited,
		`{"error":{"message":"m","code":"insufficient_quota"}}`:                      llm.Quota,
		`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`:          llm.Ambiguous,
		`{"error":{"code":429},"usage":{"input_tokens":5,"output_tokens":7}}`:        llm.Ambiguous,
		strings.Replace(completed("hi"), `"hi"`, `"hi","text":{"value":"ho"}`, 1):    llm.Ambiguous,
		strings.Replace(completed("hi"), `"content":[`, `"content":[null],"a":[`, 1): llm.RejectedOutput,
	} {
		s := serve(t, func(w http.ResponseWriter, r asked) { answerJSON(w, 200, body) })
		a, err := newResponses(t, s, openai.Config{}).Call(context.Background(), llm.Request{Model: "m", Content: "c"})
		var f *llm.Failure
		if !errors.As(err, &f) || f.Class != class || a.Text != "" || f.WireRequests != 1 || f.Status != 200 {
			t.Errorf("%s: %+v, %+v", body, a, err)
		}
	}
}

const (
	created  = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","output":[]}}`
	pieceHel = `{"type":"response.output_text.delta","sequence_number":4,"delta":"hel"}`
	pieceLo  = `{"type":"response.output_text.delta","sequence_number":5,"delta":"lo"}`
)

func ending(body string) string {
	return `{"type":"response.completed","sequence_number":9,"response":` + body + `}`
}

// Streams as servers send them and break them: one request each, and no half answer.
func TestResponseStreams(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []string
		dies   bool
		class  llm.Class
		says   string
	}{
		{"whole", []string{created, pieceHel, pieceLo, ending(completed("hello"))}, false, "", ""},
		{"dies behind the end", []string{created, pieceHel, pieceLo, ending(completed("hello"))}, true, "", ""},
		{"[DONE] behind the end", []string{created, pieceHel, pieceLo, ending(completed("hello")), "[DONE]"}, false, "", ""},
		{"nothing", nil, false, llm.Ambiguous, "terminal event"},
		{"ends too early", []string{created, pieceHel, pieceLo}, false, llm.Ambiguous, "terminal event"},
		{"[DONE] alone", []string{created, pieceHel, pieceLo, "[DONE]"}, false, llm.Ambiguous, "terminal event"},
		{"dies before anything", nil, true, llm.Ambiguous, "EOF"},
		{"dies behind created", []string{created}, true, llm.Ambiguous, "EOF"},
		{"dies in the text", []string{created, pieceHel}, true, llm.Ambiguous, "EOF"},
		{"no JSON", []string{created, "x", ending(completed("hello"))}, false, llm.Ambiguous, "no event"},
		{"null", []string{created, "null", ending(completed("hello"))}, false, llm.Ambiguous, "no event"},
		{"a piece of no text", []string{created, `{"type":"response.output_text.delta","delta":{"t":"x"}}`, ending(completed("hello"))}, false, llm.Ambiguous, "no event"},
		{"the end holds nothing", []string{created, `{"type":"response.completed"}`}, false, llm.Ambiguous, "no response"},
		{"the end says something else", []string{created, ending(response("in_progress", `,"output":[`+message("hello")+`]`))}, false, llm.Ambiguous, "no response"},
		{"the end says something else, well", []string{created, strings.Replace(ending(completed("hello")), "response.completed", "response.incomplete", 1)}, false, llm.Ambiguous, "no response"},
		{"the end lost the text", []string{created, pieceHel, pieceLo, ending(response("completed", `,"output":[],`+counts))}, false, llm.Ambiguous, "nothing of the text"},
		{"error event", []string{created, `{"type":"error","code":"rate_limit_exceeded","message":"slow down","sequence_number":1}`}, false, llm.RateLimited, "slow down"},
		{"error event behind text", []string{created, pieceHel, `{"type":"error","code":"rate_limit_exceeded","message":"slow down"}`}, false, llm.Ambiguous, "slow down"},
		{"error member", []string{`{"error":{"message":"m","code":502}}`}, false, llm.Ambiguous, "502"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r asked) {
				answerEvents(w, c.events...)
				if c.dies {
					die()
				}
			})
			var told []string
			a, err := newResponses(t, s, openai.Config{Stream: true}).Call(context.Background(),
				llm.Request{Model: "m", Content: "c", Text: func(piece string) { told = append(told, piece) }})
			report := a.Report
			if c.class == "" {
				if err != nil || a.Text != "hello" || strings.Join(told, "|") != "hel|lo" {
					t.Fatalf("%+v, %v, told %q", a, err, told)
				}
			} else {
				var f *llm.Failure
				if !errors.As(err, &f) || f.Class != c.class || !strings.Contains(f.Message, c.says) || a.Text != "" {
					t.Fatalf("%+v, %v; want %s %q", a, err, c.class, c.says)
				}
				report = f.Report
			}
			if report.WireRequests != 1 || s.asks("") != 1 || len(c.events) > 1 && report.RequestID != "resp_1" {
				t.Errorf("%+v", report)
			}
		})
	}
}

// What is sent: the conversation in its order, cleaned; nothing is kept at the provider that nobody asks for again.
func TestResponseRequest(t *testing.T) {
	temp, limit := 0.5, 99
	s := serve(t, func(w http.ResponseWriter, r asked) { answerJSON(w, 200, completed("hi")) })
	req := llm.Request{Model: "m", System: "s\x00", Content: "c\xff", Temperature: &temp, MaxOutputTokens: &limit, Op: "op-1",
		History: []llm.Message{{Role: llm.RoleUser, Text: "q\x00"}, {Role: llm.RoleAssistant, Text: "a"}, {Role: llm.RoleUser}}}
	var told int
	req.Text = func(string) { told++ }
	if _, err := newResponses(t, s, openai.Config{}).Call(context.Background(), req); err != nil {
		t.Fatal(err)
	}
	const turns = `"input":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"c�"}],"temperature":0.5,"max_output_tokens":99,`
	if got, want := s.last(t, "POST /v1/responses").body, `{"model":"m","instructions":"s",`+turns+`"store":false}`; got != want {
		t.Errorf("sent %s", got)
	}
	if told != 0 {
		t.Error("an answer that is not streamed was told in pieces")
	}
	if _, err := newResponses(t, s, openai.Config{Stream: true, Recovery: llm.RecoveryConfig{Kind: llm.RecoverBackground}}).Call(context.Background(), req); err != nil {
		t.Fatal(err)
	}
	if got, want := s.last(t, "POST /v1/responses").body, `{"model":"m","instructions":"s",`+turns+`"stream":true,"background":true,"store":true,"metadata":{"fencepost_op":"op-1"}}`; got != want {
		t.Errorf("sent %s", got)
	}
	req.History = []llm.Message{{Role: "system", Text: "obey"}}
	var f *llm.Failure
	if _, err := newResponses(t, s, openai.Config{}).Call(context.Background(), req); !errors.As(err, &f) || f.Class != llm.Permanent || s.asks("") != 2 {
		t.Errorf("a message of no role: %v", err)
	}
}

func TestWaysToRecoverAreChecked(t *testing.T) {
	hour := llm.RecoveryConfig{Kind: llm.RecoverKey, Retention: 3600e9}
	for _, c := range []struct {
		way       llm.RecoveryConfig
		profile   string
		chat, rsp bool
	}{
		{llm.RecoveryConfig{}, "compatible", true, true},
		{llm.RecoveryConfig{Kind: llm.RecoverNone}, "ollama", true, true},
		{llm.RecoveryConfig{}, "llama.cpp", true, false},
		{llm.RecoveryConfig{Kind: llm.RecoverStored}, "openai", true, false},
		{llm.RecoveryConfig{Kind: llm.RecoverBackground}, "openai", false, true},
		{llm.RecoveryConfig{Kind: llm.RecoverStored}, "vllm", false, false},
		{llm.RecoveryConfig{Kind: llm.RecoverBackground}, "vllm", false, true},
		{llm.RecoveryConfig{Kind: llm.RecoverBackground}, "ollama", false, false},
		{llm.RecoveryConfig{Kind: llm.RecoverBackground}, "litellm", false, true},
		{hour, "openai", false, false},
		{hour, "compatible", true, true},
		{llm.RecoveryConfig{Kind: llm.RecoverKey}, "compatible", false, false},
		{llm.RecoveryConfig{Kind: "hope"}, "compatible", false, false},
	} {
		profile, err := openai.ProfileNamed(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		cfg := openai.Config{BaseURL: "http://127.0.0.1:1/v1", Recovery: c.way, Profile: profile}
		chat, err := openai.New(cfg)
		if (err == nil) != c.chat {
			t.Errorf("chat, %s by %q: %v", c.profile, c.way.Kind, err)
		}
		rsp, err := openai.NewResponses(cfg)
		if (err == nil) != c.rsp {
			t.Errorf("responses, %s by %q: %v", c.profile, c.way.Kind, err)
		}
		recovers := c.way.Kind != "" && c.way.Kind != llm.RecoverNone
		if chat != nil && chat.Recovers() != recovers || rsp != nil && rsp.Recovers() != recovers {
			t.Errorf("%q: Recovers is wrong", c.way.Kind)
		}
	}
	if _, err := openai.ProfileNamed("openia"); err == nil || !strings.Contains(err.Error(), "openrouter") {
		t.Errorf("%v", err)
	}
	var names []string
	for _, p := range openai.Profiles {
		names = append(names, p.Name)
		if p.About == "" || strings.Contains(p.About, "\n") {
			t.Errorf("%s is not described in a line", p.Name)
		}
	}
	if slices.Sort(names); len(slices.Compact(names)) != len(openai.Profiles) {
		t.Error("two profiles of one name")
	}
}
