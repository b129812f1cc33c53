package openai_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/openai"
)

const (
	chatMessages = `[{"role":"system","content":"Be kind."},{"role":"user", "content":[{"type":"text","text":"caf\u00e9 <&> 1e2"}]}]`
	chatTools    = `"tools":[{"type":"function","function":{"name":"f"}}]`
	okCompletion = `{"id":"x","model":"m","choices":[{"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}`
)

func chatRequest(params string) llm.Request {
	r := llm.Request{Model: "m", Content: "café <&> 1e2", System: "never sent", Op: "fp-op-1", Chat: &llm.Chat{Messages: []byte(chatMessages)}}
	if params != "" {
		r.Chat.Params = []byte(params)
	}
	return r
}

// Chat requests are sent byte for byte, with nothing but what the adapter says itself.
func TestChatIsSentAsItCame(t *testing.T) {
	const params = `{"temperature":1e0, "seed": 12345678901234567890,"max_completion_tokens":7,"response_format":{"type":"json_object"},"metadata":{"a":"b"}}`
	for name, tc := range map[string]struct {
		config openai.Config
		params string
		want   string
	}{
		"nothing else": {want: `{"model":"m","messages":` + chatMessages + `}`},
		"parameters": {params: params, want: `{"model":"m","messages":` + chatMessages +
			`,"temperature":1e0,"seed":12345678901234567890,"max_completion_tokens":7,"response_format":{"type":"json_object"},"metadata":{"a":"b"}}`},
		"streamed": {config: openai.Config{Stream: true}, want: `{"model":"m","messages":` + chatMessages + `,"stream":true,"stream_options":{"include_usage":true}}`},
		"an old server's limit": {config: openai.Config{Profile: openai.Profile{LegacyMaxTokens: true}}, params: `{"max_completion_tokens":7}`,
			want: `{"model":"m","messages":` + chatMessages + `,"max_tokens":7}`},
		"stored": {config: openai.Config{Recovery: llm.RecoveryConfig{Kind: llm.RecoverStored}}, params: `{"metadata":{"a":"b"}}`,
			want: `{"model":"m","messages":` + chatMessages + `,"metadata":{"a":"b","fencepost_op":"fp-op-1"},"store":true}`},
		"stored without metadata": {config: openai.Config{Recovery: llm.RecoveryConfig{Kind: llm.RecoverStored}},
			want: `{"model":"m","messages":` + chatMessages + `,"metadata":{"fencepost_op":"fp-op-1"},"store":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ asked) { fmt.Fprint(w, okCompletion) })
			tc.config.BaseURL = s.URL + "/v1"
			p, err := openai.New(tc.config)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if _, err := p.Call(t.Context(), chatRequest(tc.params)); err != nil {
				t.Fatal(err)
			}
			if got := s.seen[0].body; got != tc.want {
				t.Errorf("sent %s\nwant %s", got, tc.want)
			}
		})
	}
}

// What would make another request of it than was counted is not sent.
func TestChatMayNotSayWhatTheAdapterSays(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ asked) { fmt.Fprint(w, okCompletion) })
	p, err := openai.New(openai.Config{BaseURL: s.URL + "/v1"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, params := range []string{`{"n":2}`, `{"model":"x"}`, `{"messages":[]}`, `{"stream":true}`, `{"stream_options":{}}`, `{"store":true}`, `[]`, `{"seed":1,"seed":2}`, `{`} {
		_, err := p.Call(t.Context(), chatRequest(params))
		var f *llm.Failure
		if !errors.As(err, &f) || f.Class != llm.Permanent || f.WireRequests != 0 {
			t.Errorf("%s: %v", params, err)
		}
	}
	if len(s.seen) > 0 {
		t.Errorf("sent %v", s.seen)
	}
}

func TestToolCalls(t *testing.T) {
	const call = `{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":\"<1>\"}"}}`
	for name, tc := range map[string]struct {
		offered bool
		choice  string
		class   llm.Class // empty: an answer
		text    string
		finish  string
		message string
	}{
		"called": {offered: true, choice: `{"message":{"content":null,"tool_calls":[` + call + `]},"finish_reason":"tool_calls"}`,
			finish: "tool_calls", message: `{"role":"assistant","content":null,"tool_calls":[` + call + `]}`},
		"with text, and what the server wants back": {offered: true,
			choice: `{"message":{"content":"wait <","tool_calls":[{"extra_content":{"x":1},` + call[1:] + `]},"finish_reason":"tool_calls"}`,
			finish: "tool_calls", text: "wait <", message: `{"role":"assistant","content":"wait <","tool_calls":[{"extra_content":{"x":1},` + call[1:] + `]}`},
		"asked for by name": {offered: true, choice: `{"message":{"tool_calls":[` + call + `]},"finish_reason":"stop"}`,
			finish: "stop", message: `{"role":"assistant","content":null,"tool_calls":[` + call + `]}`},
		"not called":            {offered: true, choice: `{"message":{"content":"yes","tool_calls":[]},"finish_reason":"stop"}`, text: "yes", finish: "stop"},
		"called without a call": {offered: true, choice: `{"message":{"content":"yes"},"finish_reason":"tool_calls"}`, class: llm.RejectedOutput},
		"not offered":           {choice: `{"message":{"tool_calls":[` + call + `]},"finish_reason":"tool_calls"}`, class: llm.RejectedOutput},
		"refused":               {offered: true, choice: `{"message":{"refusal":"no","tool_calls":[` + call + `]},"finish_reason":"stop"}`, class: llm.RejectedOutput},
		"filtered":              {offered: true, choice: `{"message":{"tool_calls":[` + call + `]},"finish_reason":"content_filter"}`, class: llm.RejectedOutput},
		"no end":                {offered: true, choice: `{"message":{"tool_calls":[` + call + `]}}`, class: llm.Ambiguous},
		"unreadable":            {offered: true, choice: `{"message":{"tool_calls":"x"},"finish_reason":"tool_calls"}`, class: llm.Ambiguous},
		"without an id":         {offered: true, choice: `{"message":{"tool_calls":[{"function":{"name":"f","arguments":""}}]},"finish_reason":"tool_calls"}`, class: llm.Ambiguous},
		"without a name":        {offered: true, choice: `{"message":{"tool_calls":[{"id":"c","function":{"arguments":""}}]},"finish_reason":"tool_calls"}`, class: llm.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ asked) {
				fmt.Fprintf(w, `{"id":"x","model":"m","choices":[%s]}`, tc.choice)
			})
			checkCalled(t, s, tc.offered, false, tc.class, tc.text, tc.finish, tc.message)
		})
	}
}

func checkCalled(t *testing.T, s *scripted, offered, stream bool, class llm.Class, text, finish, message string) {
	t.Helper()
	p, err := openai.New(openai.Config{BaseURL: s.URL + "/v1", Stream: stream})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	params := ""
	if offered {
		params = "{" + chatTools + "}"
	}
	a, err := p.Call(t.Context(), chatRequest(params))
	if class != "" {
		var f *llm.Failure
		if !errors.As(err, &f) || f.Class != class || f.WireRequests != 1 {
			t.Errorf("%+v, %v; want %s", a, err, class)
		}
		return
	}
	if err != nil || a.Text != text || a.FinishReason != finish || string(a.Message) != message {
		t.Errorf("%+v, message %s, %v", a, a.Message, err)
	}
}

func TestToolCallsOfAStream(t *testing.T) {
	const one = `{"role":"assistant","content":null,"tool_calls":[{"function":{"arguments":"{\"a\":1}","name":"f"},"id":"c1","type":"function"}]}`
	const two = `{"role":"assistant","content":null,"tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"c1","type":"function"},` +
		`{"function":{"arguments":"[]","name":"g"},"id":"c2","type":"function"}]}`
	for name, tc := range map[string]struct {
		deltas  []string
		class   llm.Class
		message string
	}{
		"in pieces": {deltas: []string{`{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}`,
			`{"index":0,"function":{"arguments":"{\"a\""}}`, `{"index":0,"function":{"arguments":":1}"}}`}, message: one},
		"whole, without an index": {deltas: []string{`{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}`}, message: one},
		"the id in every piece": {deltas: []string{`{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\""}}`,
			`{"index":0,"id":"c1","function":{"name":null,"arguments":":1}"}}`}, message: one},
		"two": {deltas: []string{`{"index":0,"id":"c1","function":{"name":"f","arguments":"{"}},{"index":1,"id":"c2","function":{"name":"g","arguments":"["}}`,
			`{"index":1,"function":{"arguments":"]"}}`, `{"index":0,"function":{"arguments":"}"}}`}, message: two},
		"two, without an index": {deltas: []string{`{"id":"c1","function":{"name":"f","arguments":"{}"}}`, `{"id":"c2","function":{"name":"g","arguments":"[]"}}`}, message: two},
		"another id":            {deltas: []string{`{"index":0,"id":"c1","function":{"name":"f","arguments":""}}`, `{"index":0,"id":"c2"}`}, class: llm.Ambiguous},
		"a gap":                 {deltas: []string{`{"index":1,"id":"c1","function":{"name":"f","arguments":""}}`}, class: llm.Ambiguous},
		"below":                 {deltas: []string{`{"index":-1,"id":"c1","function":{"name":"f","arguments":""}}`}, class: llm.Ambiguous},
		"no id":                 {deltas: []string{`{"index":0,"function":{"name":"f","arguments":"{}"}}`}, class: llm.Ambiguous},
		"no name":               {deltas: []string{`{"index":0,"id":"c1","function":{"arguments":"{}"}}`}, class: llm.Ambiguous},
		"no call":               {deltas: []string{`5`}, class: llm.Ambiguous},
		"no function":           {deltas: []string{`{"index":0,"id":"c1","function":"f"}`}, class: llm.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ asked) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, d := range tc.deltas {
					fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[%s]}}]}\n\n", d)
				}
				fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n")
			})
			checkCalled(t, s, true, true, tc.class, "", "tool_calls", tc.message)
		})
	}
	t.Run("too many", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, _ asked) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 200 {
				fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":\"c%d\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n\n", i, i)
			}
			fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n")
		})
		checkCalled(t, s, true, true, llm.Ambiguous, "", "", "")
	})
}

// The simulated model's calls come to the same answer in a stream and whole.
func TestToolCallsOfTheSimulatedModel(t *testing.T) {
	w := newWorld(t)
	w.control(t, "PUT", "/sim/rules", `[{"tool_calls":[{"function":{"name":"weather","arguments":"{\"city\":\"Zürich, or somewhere else altogether\"}"}},{"id":"own","function":{"name":"now"}}]}]`)
	const want = `{"role":"assistant","content":null,"tool_calls":[`
	for _, stream := range []bool{false, true} {
		p, err := openai.New(openai.Config{BaseURL: w.http.URL + "/v1", Stream: stream})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		a, err := p.Call(t.Context(), chatRequest(`{`+chatTools+`,"seed":7}`))
		if err != nil || a.Text != "" || a.FinishReason != "tool_calls" || !strings.HasPrefix(string(a.Message), want) ||
			!strings.Contains(string(a.Message), `Zürich, or somewhere else altogether`) || !strings.Contains(string(a.Message), `"own"`) || a.Usage.OutputTokens == 0 {
			t.Errorf("stream %v: %+v, %s, %v", stream, a, a.Message, err)
		}
	}
	if listed := string(w.control(t, "GET", "/sim/requests", "")); strings.Count(listed, `"seed":7`) != 2 {
		t.Errorf("the parameters are not in %s", listed)
	}
}

func TestChatIsNotRepeatedInMessages(t *testing.T) {
	const secret = "the launch code is 0000-1111-2222-3333-4444"
	s := serve(t, func(w http.ResponseWriter, _ asked) {
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"error":{"message":"cannot read: %s"}}`, secret)
	})
	p, err := openai.New(openai.Config{BaseURL: s.URL + "/v1"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	req := chatRequest("")
	req.Chat.Messages = []byte(`[{"role":"assistant","content":"` + strings.ReplaceAll(secret, "e", `\u0065`) + `"},{"role":"user","content":"hi"}]`)
	if _, err := p.Call(t.Context(), req); err == nil || strings.Contains(err.Error(), "launch code") {
		t.Errorf("%v", err)
	}
}

func TestResponsesTranslatesTextAlone(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ asked) {
		fmt.Fprint(w, `{"id":"r","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"yes"}]}]}`)
	})
	p, err := openai.NewResponses(openai.Config{BaseURL: s.URL + "/v1"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	req := chatRequest(`{"temperature":0.50,"max_completion_tokens":7,"top_p":1,"user":"u","reasoning_effort":"low","verbosity":"high",` +
		`"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":{"a":1}}},"service_tier":"flex"}`)
	if _, err := p.Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	want := `{"model":"m","input":[{"role":"system","content":"Be kind."},{"role":"user","content":"café \u003c\u0026\u003e 1e2"}],"temperature":0.50,"max_output_tokens":7,` +
		`"store":false,"top_p":1,"user":"u","service_tier":"flex","reasoning":{"effort":"low"},` +
		`"text":{"format":{"name":"s","schema":{"a":1},"strict":true,"type":"json_schema"},"verbosity":"high"}}`
	if got := s.seen[0].body; got != want {
		t.Errorf("sent %s\nwant %s", got, want)
	}
	for params, word := range map[string]string{
		"{" + chatTools + "}": "tools", `{"stop":"x"}`: "stop", `{"seed":1}`: "seed", `{"logit_bias":{}}`: "logit_bias", `{"max_tokens":1,"max_completion_tokens":1}`: "limits",
	} {
		_, err := p.Call(t.Context(), chatRequest(params))
		if !errors.Is(err, llm.ErrUntranslatable) || !strings.Contains(err.Error(), word) || !strings.HasPrefix(err.Error(), "permanent") {
			t.Errorf("%s: %v", params, err)
		}
	}
	for _, messages := range []string{`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}]`, `[{"role":"tool","content":"x"}]`,
		`[{"role":"assistant","content":null,"tool_calls":[{}]}]`, `[{"role":"user","content":"x","name":"n"}]`} {
		req := chatRequest("")
		req.Chat.Messages = []byte(messages)
		if _, err := p.Call(t.Context(), req); !errors.Is(err, llm.ErrUntranslatable) {
			t.Errorf("%s: %v", messages, err)
		}
	}
	if len(s.seen) != 1 {
		t.Errorf("%d requests", len(s.seen))
	}
}
