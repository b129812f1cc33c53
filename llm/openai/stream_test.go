package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/openai"
)

// For the same simulated answer, both ways of calling give the same.
func TestStreamedAndWholeAnswersAreTheSame(t *testing.T) {
	w := newWorld(t)
	limit := 3
	for _, c := range []struct {
		rule string
		req  llm.Request
	}{
		{`{}`, llm.Request{Content: "hello, in more than one piece, ä€😀 and so on"}},
		{`{}`, llm.Request{Content: "hello, cut by the limit", System: "be brief", MaxOutputTokens: &limit}},
		{`{"text":"a\u0000b\ud800c"}`, llm.Request{Content: "c"}},
		{`{"input_tokens":100,"output_tokens":0}`, llm.Request{Content: "c"}},
		{`{"do":"empty"}`, llm.Request{Content: "c"}},
		{`{"do":"garbage"}`, llm.Request{Content: "c"}},
		{`{"do":"status","status":529,"headers":{"Retry-After":"4"}}`, llm.Request{Content: "c"}},
		{`{"body":"null"}`, llm.Request{Content: "c"}},
	} {
		w.control(t, "PUT", "/sim/rules", "["+c.rule+"]")
		var got [2]string
		for i := range got {
			p := newProvider(t, openai.Config{BaseURL: w.http.URL + "/v1", Stream: i == 1})
			c.req.Model = "m"
			a, err := p.Call(context.Background(), c.req)
			a.RequestID = ""
			var f *llm.Failure
			if errors.As(err, &f) {
				f.RequestID, f.Err = "", nil
			}
			b, jsonErr := json.Marshal([]any{a, f})
			if jsonErr != nil {
				t.Fatal(jsonErr)
			}
			got[i] = string(b)
		}
		if got[0] != got[1] {
			t.Errorf("%s:\n  whole    %s\n  streamed %s", c.rule, got[0], got[1])
		}
	}
}

// Streams as servers send them and break them.
func TestStreams(t *testing.T) {
	const (
		role  = `data: {"id":"x","model":"m-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
		hi    = `data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}` + "\n\n"
		stop  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		count = `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}` + "\n\n"
		zero  = `data: {"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}` + "\n\n"
		null  = `data: {"choices":[],"usage":null}` + "\n\n"
		done  = "data: [DONE]\n\n"
	)
	inner := func(code string) string { return `data: {"error":{"message":"said","code":` + code + `}}` + "\n\n" }
	for _, c := range []struct {
		name, body string
		class      llm.Class
		text       string
		usage      int64 // of output; -1: none
	}{
		{"whole", role + hi + stop + count + done, "", "hi", 7},
		{"no [DONE], clean end", role + hi + stop + count, "", "hi", 7},
		{"no usage", role + hi + stop + done, "", "hi", -1},
		{"usage null at the end", zero + hi + stop + count + null + done, "", "hi", 7},
		{"usage zero at the end", count + hi + stop + zero + done, "", "hi", 0},
		{"comments", ": ping\n\n" + role + ": OPENROUTER PROCESSING\n\n" + hi + stop + done, "", "hi", -1},
		{"CRLF", strings.ReplaceAll(role+hi+stop+done, "\n", "\r\n"), "", "hi", -1},
		{"something after [DONE]", hi + stop + done + "data: {\"error\":1}\n\n", "", "hi", -1},
		{"another choice", strings.ReplaceAll(hi+stop, `"index":0`, `"index":1`) + hi + stop + done, "", "hi", -1},
		{"finish in the last piece", strings.Replace(hi, "null", `"length"`, 1) + done, "", "hi", -1},

		{"empty", role + stop + count + done, llm.RejectedOutput, "", 7},
		{"filter", hi + strings.Replace(stop, `"stop"`, `"content_filter"`, 1) + done, llm.RejectedOutput, "", -1},
		{"refusal", strings.Replace(hi, "content", "refusal", 1) + stop + count + done, llm.RejectedOutput, "", 7},
		{"refusal beside text", hi + strings.Replace(hi, "content", "refusal", 1) + stop + count + done, llm.RejectedOutput, "", 7},

		{"[DONE] without finish", role + hi + count + done, llm.Ambiguous, "", 7},
		{"clean end without finish", role + hi, llm.Ambiguous, "", -1},
		{"nothing", "", llm.Ambiguous, "", -1},
		{"half an event", hi + stop + `data: {"choices":[]`, llm.Ambiguous, "", -1},
		{"half an event, whole line", hi + stop + "data: [DONE]\n", llm.Ambiguous, "", -1},
		{"no JSON", hi + "data: x\n\n" + stop + done, llm.Ambiguous, "", -1},
		{"null", hi + "data: null\n\n" + stop + done, llm.Ambiguous, "", -1},
		{"text behind the finish", hi + stop + hi + done, llm.Ambiguous, "", -1},
		{"unknown finish", hi + strings.Replace(stop, `"stop"`, `"eos"`, 1) + done, llm.Ambiguous, "", -1},
		{"error after output", hi + inner("429") + stop + done, llm.Ambiguous, "", -1},
		{"named error event", "event: error\ndata: {\"message\":\"said\"}\n\n" + hi + stop + done, llm.Ambiguous, "", -1},
		{"inner 429", role + inner("429"), llm.RateLimited, "", -1},
		{"inner overload", inner(`"slow_down"`), llm.Overloaded, "", -1},
		{"inner quota", inner(`"insufficient_quota"`), llm.Quota, "", -1},
		{"inner 502", inner("502"), llm.Ambiguous, "", -1},
		{"line too long", hi + "data: " + strings.Repeat("x", 1<<20) + "\n\n" + stop + done, llm.Ambiguous, "", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			rule, err := json.Marshal([]any{map[string]any{"headers": map[string]string{"Content-Type": "text/event-stream; charset=utf-8"}, "body": c.body}})
			if err != nil {
				t.Fatal(err)
			}
			if c.body == "" {
				rule = []byte(strings.Replace(string(rule), `"body":""`, `"body":"\n"`, 1))
			}
			w.control(t, "PUT", "/sim/rules", string(rule))
			p := newProvider(t, openai.Config{BaseURL: w.http.URL + "/v1", Stream: true, HTTP: llm.TransportConfig{KeepAlive: time.Minute}})
			a, err := p.Call(context.Background(), llm.Request{Model: "m", Content: "c"})
			report := a.Report
			if c.class == "" {
				if err != nil || a.Text != c.text {
					t.Fatalf("%+v, %v", a, err)
				}
			} else {
				var f *llm.Failure
				if !errors.As(err, &f) || f.Class != c.class || a.Text != "" {
					t.Fatalf("%+v, %v; want %s", a, err, c.class)
				}
				report = f.Report
			}
			if report.WireRequests != 1 || w.requests.Load() != 1 || (report.Usage == nil) != (c.usage < 0) || report.Usage != nil && report.Usage.OutputTokens != c.usage {
				t.Errorf("%+v, usage %+v", report, report.Usage)
			}
		})
	}
}
