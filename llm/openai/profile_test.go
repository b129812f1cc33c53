package openai_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/openai"
)

// What the servers of the profiles are known to say, each its own way.
func TestQuirksOfServers(t *testing.T) {
	const (
		text   = `{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}`
		stop   = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		usage  = `{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}`
		cut    = `"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]`
		answer = `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]`
	)
	for _, c := range []struct {
		profile, name string
		reply         reply
		class         llm.Class // "": hi
		says          string
	}{
		{"openrouter", "an upstream's 429", reply{status: 200, body: `{"error":{"code":429,"message":"Provider returned error"}}`}, llm.RateLimited, "429"},
		{"openrouter", "an upstream's 502", reply{status: 200, body: `{"error":{"code":502,"message":"Provider returned error"}}`}, llm.Ambiguous, "502"},
		{"openrouter", "no credits", reply{status: 402, body: `{"error":{"code":402,"message":"Insufficient credits"}}`}, llm.Quota, "402"},
		{"openrouter", "no credits, behind a 200", reply{status: 200, body: `{"error":{"code":402,"message":"Insufficient credits"}}`}, llm.Quota, "402"},
		{"openrouter", "an error for a choice", reply{status: 200, body: `{"choices":[{"finish_reason":"error","message":{"content":""},"error":{"code":429,"message":"slow"}}]}`}, llm.RateLimited, "slow"},
		{"openrouter", "an error behind half a choice", reply{status: 200, body: `{"choices":[{"finish_reason":"error","message":{"content":"hal"},"error":{"code":429,"message":"slow"}}]}`}, llm.Ambiguous, "slow"},
		{"openrouter", "finish error alone", reply{status: 200, body: strings.Replace(answer, "stop", "error", 1) + `}`}, llm.Ambiguous, "unknown finish reason error"},
		{"openrouter", "an error in the stream", reply{events: []string{`{"error":{"code":429,"message":"slow"},` + cut + `}`}}, llm.RateLimited, "slow"},
		{"openrouter", "an error of a choice in the stream", reply{events: []string{strings.Replace(stop, `"stop"`, `"error","error":{"code":502,"message":"upstream"}`, 1), "[DONE]"}}, llm.Ambiguous, "upstream"},
		{"openrouter", "an error behind text", reply{events: []string{text, `{"error":{"code":429,"message":"slow"},` + cut + `}`, "[DONE]"}}, llm.Ambiguous, "slow"},
		{"openrouter", "comments", reply{events: []string{text + "\n\n: OPENROUTER PROCESSING\n", stop, usage, "[DONE]"}}, "", ""},
		{"ollama", "a text for an error", reply{status: 404, body: `{"error":"model \"m\" not found, try pulling it first"}`}, llm.Permanent, "try pulling it"},
		{"ollama", "a text for an error, behind a 200", reply{status: 200, body: `{"error":"an error was encountered while running the model"}`}, llm.Ambiguous, "while running"},
		{"ollama", "usage in the last piece", reply{events: []string{text, strings.Replace(stop, `]}`, `],"usage":{"prompt_tokens":5,"completion_tokens":7}}`, 1), "[DONE]"}}, "", ""},
		{"llama.cpp", "loading", reply{status: 503, body: `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`}, llm.Overloaded, "Loading"},
		{"llama.cpp", "context too long", reply{status: 400, body: `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`}, llm.Permanent, "context size"},
		{"llama.cpp", "timings beside the usage", reply{status: 200, body: answer + `,"usage":{"prompt_tokens":5,"completion_tokens":7},"timings":{"prompt_ms":1.5}}`}, "", ""},
		{"vllm", "context too long", reply{status: 400, body: `{"object":"error","message":"This model's maximum context length is 4096 tokens","type":"BadRequestError","code":400}`}, llm.Permanent, "4096 tokens"},
		{"vllm", "an error in the stream", reply{events: []string{text, `{"error":{"object":"error","message":"EngineDeadError","type":"InternalServerError","code":500}}`, "[DONE]"}}, llm.Ambiguous, "EngineDeadError"},
		{"vllm", "aborted", reply{events: []string{text, strings.Replace(stop, `"stop"`, `"abort"`, 1), "[DONE]"}}, llm.Ambiguous, "abort"},
		{"vllm", "usage beside every piece", reply{events: []string{strings.Replace(text, `]}`, `],"usage":{"prompt_tokens":5,"completion_tokens":1}}`, 1), stop, usage, "[DONE]"}}, "", ""},
		{"litellm", "null", reply{status: 200, body: `null`}, llm.Ambiguous, "null"},
		{"litellm", "no choices", reply{status: 200, body: `{"choices":null}`}, llm.Ambiguous, "no message"},
		{"litellm", "its proxy's page", reply{status: 502, body: `<html>Bad Gateway</html>`}, llm.Ambiguous, "502"},
		{"litellm", "a login page", reply{status: 200, body: `<html>log in</html>`}, llm.Ambiguous, "not a chat completion"},
		{"litellm", "no usage", reply{events: []string{text, stop, "[DONE]"}}, "", ""},
	} {
		t.Run(c.profile+"/"+c.name, func(t *testing.T) {
			profile, err := openai.ProfileNamed(c.profile)
			if err != nil {
				t.Fatal(err)
			}
			s := serve(t, func(w http.ResponseWriter, r asked) { c.reply.send(w) })
			limit := 9
			a, err := newChat(t, s, openai.Config{Profile: profile, Stream: c.reply.events != nil}).
				Call(context.Background(), llm.Request{Model: "m", Content: "c", MaxOutputTokens: &limit})
			report := a.Report
			if c.class == "" {
				known := !strings.Contains(c.name, "no usage")
				if err != nil || a.Text != "hi" || (a.Usage != nil) != known || known && a.Usage.OutputTokens != 7 {
					t.Fatalf("%+v, %v", a, err)
				}
			} else {
				var f *llm.Failure
				if !errors.As(err, &f) || f.Class != c.class || !strings.Contains(f.Message, c.says) {
					t.Fatalf("%+v, %v; want %s %q", a, err, c.class, c.says)
				}
				report = f.Report
			}
			sent := s.last(t, "POST")
			if report.WireRequests != 1 || s.asks("") != 1 || (sent.field(t, "max_tokens") != nil) != profile.LegacyMaxTokens || (sent.field(t, "max_completion_tokens") != nil) == profile.LegacyMaxTokens {
				t.Errorf("%+v, sent %s", report, sent.body)
			}
		})
	}
}

func TestStreamUsageIsNotAskedOfAServerThatRefusesIt(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r asked) { answerJSON(w, 400, `{}`) })
	for _, refuses := range []bool{false, true} {
		p := newChat(t, s, openai.Config{Stream: true, Profile: openai.Profile{NoStreamUsage: refuses}})
		_, _ = p.Call(context.Background(), llm.Request{Model: "m", Content: "c"})
		if got := s.last(t, "POST").field(t, "stream_options"); (got == nil) != refuses {
			t.Errorf("refuses %v: sent %v", refuses, got)
		}
	}
}

// The conversation is sent in its order; pieces of a streamed answer are told as they come, cleaned.
func TestChatHistoryAndPieces(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r asked) {
		if r.field(t, "stream") != true {
			answerJSON(w, 200, stored("x", "hello", `"stop"`))
			return
		}
		answerEvents(w, `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, `{"choices":[{"index":1,"delta":{"content":"another"}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"hel\u0000"}}]}`, `{"choices":[{"index":0,"delta":{"content":"lo\ud800"},"finish_reason":"stop"}]}`, "[DONE]")
	})
	var told []string
	req := llm.Request{Model: "m", System: "s", Content: "c", Text: func(piece string) { told = append(told, piece) },
		History: []llm.Message{{Role: llm.RoleAssistant, Text: "hello"}, {Role: llm.RoleUser, Text: "q\x00\xff"}, {Role: llm.RoleAssistant}, {Role: llm.RoleAssistant, Text: "a"}}}
	if a, err := newChat(t, s, openai.Config{Stream: true}).Call(context.Background(), req); err != nil || a.Text != "hello\uFFFD" {
		t.Fatalf("%+v, %v", a, err)
	}
	if strings.Join(told, "|") != "hel|lo\uFFFD" {
		t.Errorf("told %q", told)
	}
	told = nil
	if _, err := newChat(t, s, openai.Config{}).Call(context.Background(), req); err != nil || told != nil {
		t.Errorf("%v, told %q of an answer that came whole", err, told)
	}
	const want = `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"assistant","content":"hello"},{"role":"user","content":"q�"},{"role":"assistant","content":"a"},{"role":"user","content":"c"}]}`
	if got := s.last(t, "POST").body; got != want {
		t.Errorf("sent %s", got)
	}
}

// No failure of a response, looked up or not, shows the key or what was said in the conversation.
func TestResponseSecretsStayOut(t *testing.T) {
	const prompt = "Tell me, doctor, what the red spots on my left arm may be"
	for _, secret := range []string{prompt, "wrong key " + key} {
		responseSecretStaysOut(t, prompt, secret)
	}
}

func responseSecretStaysOut(t *testing.T, prompt, secret string) {
	bad := `{"error":{"message":"cannot take ` + secret + `"}}`
	failed := reply{status: 200, body: response("failed", `,"error":{"code":"server_error","message":"`+secret+`"}`)}
	for _, post := range []reply{{status: 400, body: bad}, {status: 200, body: bad}, {status: 200, body: secret}, failed, waits, {events: []string{bad}}, {events: []string{created, bad}}} {
		for _, look := range []reply{{status: 401, body: bad}, {status: 200, body: bad}, failed} {
			s := backgroundServer(t, post, []reply{look}, nil, unknown)
			r := newResponses(t, s, openai.Config{Stream: post.events != nil, Recovery: quick(llm.RecoverBackground)})
			req := llm.Request{Model: "m", Content: "c", History: []llm.Message{{Role: llm.RoleUser, Text: prompt}}}
			_, called := r.Call(context.Background(), req)
			_, found := r.Recover(context.Background(), req, llm.Lost{Ref: "resp_1"})
			for _, err := range []error{called, found} {
				if err == nil {
					t.Fatalf("%+v, %+v: no failure", post, look)
				}
				for e := err; e != nil; e = errors.Unwrap(e) {
					if s := e.Error(); strings.Contains(s, "red spots") || strings.Contains(s, "very-secret") {
						t.Errorf("%s", s)
					}
				}
			}
		}
	}
}
