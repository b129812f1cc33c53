package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

const completions = "/v1/chat/completions"

const hello = `{"model":"m-1","messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"hi there"}]}`

// chat posts a chat completion, which is answered once its task has ended.
func (a *api) chat(key, body string, headers ...string) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		got, err := a.try(context.Background(), "POST", completions, body, append([]string{"Idempotency-Key", key}, headers...)...)
		if err != nil {
			a.t.Errorf("%s: %v", key, err)
		}
		out <- got
	}()
	return out
}

// bound is the task of a key, once there is one.
func (a *api) bound(operation, key string) (id uuid.UUID) {
	a.t.Helper()
	bindings := a.store.(Bindings)
	eventually(a.t, "the key is bound", func() bool {
		b, err := bindings.Binding(a.t.Context(), "w1", operation, key)
		id = b.TaskID
		return err == nil
	})
	return id
}

// chatError checks an error in OpenAI's shape and returns it.
func (a answer) chatError(t testing.TB, status int, code string, retry bool) map[string]any {
	t.Helper()
	a.want(t, status)
	e, _ := a.object(t)["error"].(map[string]any)
	if e["code"] != code || e["message"] == "" || e["message"] == nil || e["type"] == nil {
		t.Errorf("error %s, want code %s", a.body, code)
	}
	if _, ok := e["param"]; !ok {
		t.Errorf("error %s has no param", a.body)
	}
	if got := a.Header.Get("X-Should-Retry"); got != fmt.Sprint(retry) {
		t.Errorf("X-Should-Retry %q of %d %s, want %v", got, status, code, retry)
	}
	if got := a.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	return e
}

// claimWork takes a task as a worker would, with what it asks for.
func (a *api) claimWork(id uuid.UUID) *tasks.Work {
	a.t.Helper()
	claimed, err := a.store.Claim(a.t.Context(), tasks.Claimer{Worker: "worker-1", Lease: time.Minute, ParkMax: time.Minute, Provider: "sim"},
		[]tasks.Ref{{TaskID: id, Workspace: "w1"}})
	if err != nil || claimed[0].Decision != tasks.DecisionClaimed {
		a.t.Fatalf("claim: %+v, %v", claimed, err)
	}
	return claimed[0].Work
}

func TestI6_ChatRunsOnceForOneKey(t *testing.T) { chatRunsOnce(t, newAPI(t, nil)) }

func chatRunsOnce(t *testing.T, a *api) {
	first := a.chat("k1", hello)
	id := a.bound(tasks.OperationChat, "k1")
	// The same in another spelling, and streamed or not, is the same.
	joined := a.chat(`"k1"`, `{"messages":[{"content":"Be kind.","role":"system"},{"role":"user","content":"hi \u0074here"}],"stream":false,"temperature":null,"model":"m-1"}`)
	work := a.claimWork(id)
	if c := work.Request.Chat; c == nil || string(c.Messages) != hello[len(`{"model":"m-1","messages":`):len(hello)-1] || c.Params != nil {
		t.Errorf("chat %+v", c)
	}
	if work.Request.Content != "hi there" || work.Request.Model != "m-1" {
		t.Errorf("request %+v", work.Request)
	}
	in, out, cached, reasoning := int64(12), int64(34), int64(5), int64(7)
	a.settle(work.Assignment, tasks.Settlement{Outcome: tasks.OutcomeComplete,
		Candidate: tasks.Candidate{ReplyID: uuid.Must(uuid.NewV7()), Text: "hello <you>", Model: "m-1-2026", FinishReason: "stop"},
		Call:      tasks.Call{WireRequests: 1, InputTokens: &in, OutputTokens: &out, CachedInputTokens: &cached, ReasoningTokens: &reasoning}})
	got := (<-first).want(t, 200)
	if got.Header.Get("Idempotency-Replayed") != "" || got.Header.Get("Fencepost-Task") != id.String() || got.Header.Get("Idempotency-Expires") == "" {
		t.Errorf("headers %v", got.Header)
	}
	var body struct {
		ID, Object, Model string
		Created           int64
		Choices           []struct {
			Index   int
			Message struct {
				Role, Content string
				Refusal       *string
			}
			FinishReason string `json:"finish_reason"`
		}
		Usage json.RawMessage
	}
	if err := json.Unmarshal(got.body, &body); err != nil {
		t.Fatal(err)
	}
	c := body.Choices[0]
	if body.ID != "chatcmpl-"+id.String() || body.Object != "chat.completion" || body.Model != "m-1-2026" || body.Created == 0 ||
		len(body.Choices) != 1 || c.Message.Role != "assistant" || c.Message.Content != "hello <you>" || c.FinishReason != "stop" {
		t.Errorf("body %s", got.body)
	}
	if want := `{"prompt_tokens":12,"completion_tokens":34,"total_tokens":46,"prompt_tokens_details":{"cached_tokens":5},"completion_tokens_details":{"reasoning_tokens":7}}`; string(body.Usage) != want {
		t.Errorf("usage %s", body.Usage)
	}
	for name, again := range map[string]answer{"joined": <-joined, "replayed": <-a.chat("k1", hello)} {
		again.want(t, 200)
		if string(again.body) != string(got.body) || again.Header.Get("Idempotency-Replayed") != "true" || again.Header.Get("Fencepost-Saved-Tokens") != "46" {
			t.Errorf("%s: %v %s", name, again.Header, again.body)
		}
	}
	(<-a.chat("k1", strings.Replace(hello, "hi there", "hi you", 1))).chatError(t, 422, "idempotency_key_reused", false)
	page := a.do("GET", "/v1/conversations/chat-"+id.String()+"/messages", "").want(t, 200).object(t)["messages"].([]any)
	if len(page) != 1 || page[0].(map[string]any)["content"] != "hi there" {
		t.Errorf("conversation %v", page)
	}
}

// Each parameter that is sent on is an input of the answer.
func TestI6_ChatFingerprintHasEveryParameter(t *testing.T) {
	values := map[string]string{
		"temperature": "0.5", "top_p": "0.5", "max_tokens": "5", "max_completion_tokens": "5", "presence_penalty": "1", "frequency_penalty": "1",
		"seed": "5", "stop": `["x"]`, "logit_bias": `{"5":1}`, "tools": `[{"type":"function","function":{"name":"f"}}]`,
		"tool_choice": `"none"`, "parallel_tool_calls": "true", "response_format": `{"type":"json_object"}`, "reasoning_effort": `"low"`,
		"verbosity": `"low"`, "user": `"u"`, "safety_identifier": `"s"`, "prompt_cache_key": `"p"`, "service_tier": `"flex"`,
	}
	print := func(body string) [32]byte {
		c, p := parseChat([]byte(body))
		if p != nil {
			t.Fatalf("%s: %v", body, p)
		}
		return c.fingerprint(tasks.Submission{Operation: tasks.OperationChat, Kind: tasks.KindReply, Request: tasks.Request{Model: c.model}})
	}
	with := func(name, value string) string { return hello[:len(hello)-1] + `,"` + name + `":` + value + "}" }
	base := print(hello)
	seen := map[[32]byte]string{base: "nothing"}
	for name := range chatPassed {
		value, ok := values[name]
		if !ok {
			t.Errorf("no value of %s here", name)
			continue
		}
		got := print(with(name, value))
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s are one input", name, other)
		}
		seen[got] = name
	}
	for name, value := range map[string]string{"stream": "true", "stream_options": `{"include_usage":true}`, "metadata": `{"a":"b"}`, "n": "1.0", "store": "false", "user": "null"} {
		if print(with(name, value)) != base {
			t.Errorf("%s is an input of the answer", name)
		}
	}
	if print(strings.Replace(hello, "m-1", "m-2", 1)) == base || print(strings.Replace(hello, "Be kind", "Be rude", 1)) == base {
		t.Error("model or messages are no inputs")
	}
}

func TestChatRefusesByName(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.Limits.MaxChatWait = time.Second }) // of one that is taken
	message := func(m string) string { return `{"messages":[` + m + `]}` }
	with := func(members string) string { return hello[:len(hello)-1] + "," + members + "}" }
	for body, param := range map[string]string{
		`{}`:                                              "messages",
		`[]`:                                              "body",
		`{"messages":`:                                    "body",
		`{"messages":[]}`:                                 "messages",
		`{"messages":[],"messages":[]}`:                   "body",
		with(`"n":2`):                                     "n",
		with(`"store":true`):                              "store",
		with(`"background":true`):                         "background",
		with(`"logprobs":true`):                           "logprobs",
		with(`"top_logprobs":2`):                          "top_logprobs",
		with(`"audio":{"voice":"x"}`):                     "audio",
		with(`"modalities":["audio"]`):                    "modalities",
		with(`"functions":[{}]`):                          "functions",
		with(`"function_call":"auto"`):                    "function_call",
		with(`"prediction":{}`):                           "prediction",
		with(`"web_search_options":{}`):                   "web_search_options",
		with(`"unheard_of":null`):                         "unheard_of",
		with(`"Stream":true`):                             "Stream",
		with(`"stream":"yes"`):                            "stream",
		with(`"stream_options":{"x":1}`):                  "stream_options.x",
		with(`"temperature":3`):                           "temperature",
		with(`"temperature":"hot"`):                       "temperature",
		with(`"max_tokens":0`):                            "max_tokens",
		with(`"max_tokens":1.5`):                          "max_tokens",
		with(`"stop":[1]`):                                "stop",
		with(`"stop":[null]`):                             "stop",
		with(`"logit_bias":{"1":null}`):                   "logit_bias",
		with(`"logit_bias":{"1":101}`):                    "logit_bias",
		with(`"tools":[{"type":"mcp"}]`):                  "tools",
		with(`"tool_choice":"maybe"`):                     "tool_choice",
		with(`"response_format":"json"`):                  "response_format",
		with(`"service_tier":"priority"`):                 "service_tier",
		with(`"metadata":{"a":1}`):                        "metadata",
		with(`"user":"` + strings.Repeat("u", 513) + `"`): "user",
		with(`"seed":"\u0000"`):                           "body",
		with(`"user":"\ud800"`):                           "body",
		with(`"user":"` + "\xff" + `"`):                   "body",
		with(`"response_format":{"type":"json_object","x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`): "body",
		message(`{"role":"critic","content":"x"}`):                                                                   "messages[0].role",
		message(`{"content":"x"}`):                                                                                   "messages[0].role",
		message(`"x"`):                                                                                               "messages[0]",
		message(`{"role":"user","content":"x"},{"role":"user"}`):                                                     "messages[1].content",
		message(`{"role":"user","content":null}`):                                                                    "messages[0].content",
		message(`{"role":"user","content":"x","tool_calls":[]}`):                                                     "messages[0].tool_calls",
		message(`{"role":"user","content":"x","audio":{"id":"a"}}`):                                                  "messages[0].audio",
		message(`{"role":"tool","content":"x"}`):                                                                     "messages[0].tool_call_id",
		message(`{"role":"assistant","content":null,"tool_calls":[]}`):                                               "messages[0].tool_calls",
		message(`{"role":"tool","content":"x","tool_call_id":null}`):                                                 "messages[0].tool_call_id",
		message(`{"role":"assistant","content":null}`):                                                               "messages[0].content",
		message(`{"role":"assistant","tool_calls":[{"id":"c"}]}`):                                                    "messages[0].tool_calls[0]",
		message(`{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}`):                               "messages[0].content[0].type",
		message(`{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}`):                                "messages[0].content[0].type",
		message(`{"role":"user","content":[{"type":"text","text":"x","cache":1}]}`):                                  "messages[0].content[0].cache",
		message(`{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x/y"}}]}`):              "messages[0].content[0].type",
		message(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}]}`):    "messages[0].content[0].image_url.url",
		message(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/html;base64,PGI+"}}]}`): "messages[0].content[0].image_url.url",
	} {
		e := a.do("POST", completions, body, "Idempotency-Key", "refused").chatError(t, 400, "invalid_request", false)
		if e["param"] != param {
			t.Errorf("%s: param %v, want %s (%s)", body, e["param"], param, e["message"])
		}
	}
	if tasks := a.do("GET", "/v1/tasks", "").want(t, 200).object(t)["tasks"].([]any); len(tasks) != 0 {
		t.Errorf("%d tasks of refused calls", len(tasks))
	}
}

func TestChatPassesOn(t *testing.T) {
	const params = `"temperature":1e0,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object", "properties":{}}}}],` +
		`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"x":"<&>"}}},"max_tokens":9,"max_completion_tokens":7,"stop":"END"`
	const messages = `[{"role":"developer","content":[{"type":"text","text":"a"}],"name":"n"},` +
		`{"role":"user","content":[{"type":"text","text":"one "},{"type":"text","text":"two"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA==","detail":"low"}}]},` +
		`{"role":"assistant","content":null,"refusal":null,"audio":null,"annotations":[],"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"x":1}}]},` +
		`{"role":"tool","tool_call_id":"c1","content":"42"}]`
	c, p := parseChat([]byte(`{"stream":true, "messages": ` + messages + `,` + params + `,"metadata":{"a":"b"},"n":1,"modalities":["text"],"stream_options":{"include_usage":true},"reasoning_effort":null}`))
	if p != nil {
		t.Fatal(p)
	}
	if string(c.chat.Messages) != messages || string(c.chat.Params) != "{"+params+"}" {
		t.Errorf("messages %s\nparams %s", c.chat.Messages, c.chat.Params)
	}
	if c.content != "one two" || !c.stream || !c.includeUsage || *c.limit != 7 || c.metadata["a"] != "b" {
		t.Errorf("%+v", c)
	}
}

func TestChatErrorsHaveOpenAIsShape(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.Limits.MaxChatWait = time.Second }) // of one that is taken
	key := []string{"Idempotency-Key", "k"}
	a.do("POST", completions, hello).chatError(t, 400, "idempotency_key_missing", false)
	a.do("POST", completions, hello, "Idempotency-Key", "\u00e4").chatError(t, 400, "idempotency_key_invalid", false)
	a.do("POST", completions, hello, append(key, "Authorization", "Bearer nobody")...).chatError(t, 401, "unauthorized", false)
	a.do("POST", completions, hello, append(key, "Content-Type", "text/plain")...).chatError(t, 415, "invalid_request", false)
	a.do("POST", completions+"?x=1", hello, key...).chatError(t, 400, "invalid_request", false)
	a.do("GET", completions, "").chatError(t, 405, "method_not_allowed", false)
	a.do("GET", "/v1/models/m", "").chatError(t, 404, "not_found", false)
	a.do("POST", completions, `{"messages":[{"role":"user","content":"`+strings.Repeat("x", maxChatBody)+`"}]}`, key...).chatError(t, 413, "too_large", false)
	a.server.shed.full.Store(true)
	full := a.do("POST", completions, hello, key...)
	full.chatError(t, 503, "overloaded", true)
	if full.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

// A task that has failed for good answers the same each time; its status says of what.
func TestChatPriorFailure(t *testing.T) {
	a := newAPI(t, nil)
	for i, tc := range []struct {
		class  string
		status int
	}{
		{"permanent", 400}, {"rejected_output", 422}, {"quota", 429}, {"rate_limited", 429}, {"overloaded", 503}, {"not_sent", 502},
		{"ambiguous", 502}, {"deadline", 504}, {"internal", 500}, {"interrupted", 500},
	} {
		key := fmt.Sprint("k", i)
		first := a.chat(key, hello)
		a.settle(a.claim(a.bound(tasks.OperationChat, key)), tasks.Settlement{Outcome: tasks.OutcomeFail,
			Failure: tasks.Failure{Class: tc.class, Message: "said the provider"}})
		got := <-first
		e := got.chatError(t, tc.status, tc.class, false)
		if !strings.Contains(e["message"].(string), "said the provider") || got.Header.Get("Retry-After") != "" {
			t.Errorf("%v, headers %v", e, got.Header)
		}
		for _, stream := range []string{"true", "false"} {
			again := <-a.chat(key, hello[:len(hello)-1]+`,"stream":`+stream+"}")
			again.chatError(t, tc.status, tc.class, false)
			if string(again.body) != string(got.body) || again.Header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("again: %s, first: %s", again.body, got.body)
			}
		}
	}
	first := a.chat("cancelled", hello)
	a.do("POST", "/v1/tasks/"+a.bound(tasks.OperationChat, "cancelled").String()+"/cancel", "").want(t, 200)
	(<-first).chatError(t, 410, "cancelled", false)
}

func TestChatWaitEnds(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.Limits.MaxChatWait = 50 * time.Millisecond })
	for _, stream := range []string{"false", "true"} {
		got := <-a.chat("k1", hello[:len(hello)-1]+`,"stream":`+stream+"}")
		got.chatError(t, 409, "idempotency_in_progress", true)
		if got.Header.Get("Retry-After") != "1" || got.Header.Get("Fencepost-Task") == "" {
			t.Errorf("headers %v", got.Header)
		}
	}
	a.finish(a.bound(tasks.OperationChat, "k1"), "late")
	if got := (<-a.chat("k1", hello)).want(t, 200); !strings.Contains(string(got.body), `"late"`) {
		t.Errorf("body %s", got.body)
	}
}

func TestChatDrains(t *testing.T) {
	a := newAPI(t, nil)
	plain, streamed := a.chat("k1", hello), a.chat("k2", hello[:len(hello)-1]+`,"stream":true}`)
	eventually(t, "they wait", func() bool { return a.server.hub.waiting() == 2 })
	a.server.Drain()
	(<-plain).chatError(t, 503, "overloaded", true)
	(<-streamed).chatError(t, 503, "overloaded", true)
}

func TestChatWithoutKey(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.KeyOptional = true; c.Limits.MaxChatWait = time.Millisecond })
	first := a.do("POST", completions, hello)
	first.chatError(t, 409, "idempotency_in_progress", true)
	key := first.Header.Get("Idempotency-Key")
	if key == "" || a.do("POST", completions, hello).Header.Get("Idempotency-Key") == key {
		t.Errorf("key %q", key)
	}
	if again := a.do("POST", completions, hello, "Idempotency-Key", key); again.Header.Get("Fencepost-Task") != first.Header.Get("Fencepost-Task") {
		t.Error("the key that was returned is not the task's")
	}
	a.do("POST", completions, hello, "Idempotency-Key", "\u00e4").chatError(t, 400, "idempotency_key_invalid", false)
}

// The client's leaving is no cancellation.
func TestChatClientLeaves(t *testing.T) {
	a := newAPI(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := a.try(ctx, "POST", completions, hello, "Idempotency-Key", "k1")
		gone <- err
	}()
	id := a.bound(tasks.OperationChat, "k1")
	leave()
	if err := <-gone; err == nil {
		t.Fatal("it was answered")
	}
	eventually(t, "nobody waits", func() bool { return a.server.hub.waiting() == 0 })
	a.finish(id, "for later")
	if got := (<-a.chat("k1", hello)).want(t, 200); !strings.Contains(string(got.body), `"for later"`) {
		t.Errorf("body %s", got.body)
	}
}

func TestChatNaturalKey(t *testing.T) {
	a := newAPI(t, nil)
	first := a.chat("mine", hello, "Fencepost-Natural-Key", "summary:doc:1")
	second := a.chat("yours", hello, "Fencepost-Natural-Key", "summary:doc:1")
	a.finish(a.bound(tasks.OperationNatural, "summary:doc:1"), "shared")
	if one, two := <-first, <-second; string(one.want(t, 200).body) != string(two.want(t, 200).body) {
		t.Errorf("%s and %s", one.body, two.body)
	}
}

// An answer with tool calls goes through as it was saved.
func TestChatToolCalls(t *testing.T) { chatToolCalls(t, newAPI(t, nil)) }

func chatToolCalls(t *testing.T, a *api) {
	const message = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":\"<1>\"}"}}]}`
	body := hello[:len(hello)-1] + `,"tools":[{"type":"function","function":{"name":"f"}}]}`
	first := a.chat("k1", body)
	a.settle(a.claim(a.bound(tasks.OperationChat, "k1")), tasks.Settlement{Outcome: tasks.OutcomeComplete,
		Candidate: tasks.Candidate{ReplyID: uuid.Must(uuid.NewV7()), Model: "m-1", FinishReason: "tool_calls", Message: message}})
	got := (<-first).want(t, 200)
	if !strings.Contains(string(got.body), `"message":`+message+`,`) || !strings.Contains(string(got.body), `"finish_reason":"tool_calls"`) ||
		strings.Contains(string(got.body), "usage") {
		t.Errorf("body %s", got.body)
	}
	streamed := chunksOf(t, (<-a.chat("k1", body[:len(body)-1]+`,"stream":true}`)).want(t, 200).body)
	if len(streamed) != 3 || !strings.Contains(streamed[1], `"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":\"<1>\"}"}}]`) ||
		!strings.Contains(streamed[2], `"finish_reason":"tool_calls"`) {
		t.Errorf("stream %v", streamed)
	}
}

// chunksOf are the data of the events of a stream that ends as it should.
func chunksOf(t *testing.T, body []byte) (out []string) {
	t.Helper()
	for _, e := range strings.Split(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(e, "data: ")
		if !ok {
			if strings.HasPrefix(e, ":") {
				continue
			}
			t.Fatalf("event %q", e)
		}
		out = append(out, data)
	}
	if len(out) == 0 || out[len(out)-1] != "[DONE]" {
		t.Fatalf("stream %q does not end with [DONE]", body)
	}
	return out[:len(out)-1]
}

func TestModels(t *testing.T) {
	a := newAPI(t, nil)
	if got := string(a.do("GET", "/v1/models", "").want(t, 200).body); got != `{"object":"list","data":[{"id":"m-default","object":"model","created":0,"owned_by":"fencepost"}]}`+"\n" {
		t.Errorf("models %s", got)
	}
	a.do("GET", "/v1/models", "", "Authorization", "").chatError(t, http.StatusUnauthorized, "unauthorized", false)
}

func TestChatUsageIsThatOfTheAttemptThatMadeTheReply(t *testing.T) {
	call := func(in, out int64) tasks.Call { return tasks.Call{InputTokens: &in, OutputTokens: &out} }
	found := tasks.Attempt{Version: 3, Outcome: tasks.AttemptAccepted, Call: call(0, 0)}
	found.Recovered = 1
	for name, tc := range map[string]struct {
		attempts []tasks.Attempt
		want     int64 // -1: not known
	}{
		"accepted":  {[]tasks.Attempt{{Version: 1, Outcome: tasks.AttemptFailed, Call: call(1, 2)}, {Version: 2, Outcome: tasks.AttemptAccepted, Call: call(10, 20)}}, 30},
		"recovered": {[]tasks.Attempt{{Version: 1, Outcome: tasks.AttemptUnknown, Call: call(100, 200)}, {Version: 2, Outcome: tasks.AttemptFailed}, found}, 300},
		"unknown":   {[]tasks.Attempt{{Version: 1, Outcome: tasks.AttemptAccepted}}, -1},
		"none":      {nil, -1},
	} {
		got := int64(-1)
		if u := usageOf(tc.attempts); u != nil {
			got = u.Total
		}
		if got != tc.want {
			t.Errorf("%s: %d tokens, want %d", name, got, tc.want)
		}
	}
}

// stuck stores nothing until it is let go, however long its callers wait.
type stuck struct {
	tasks.Store
	let chan struct{}
}

func (s stuck) Submit(ctx context.Context, items []tasks.Submission) ([]tasks.Submitted, error) {
	<-s.let
	return s.Store.Submit(context.WithoutCancel(ctx), items)
}

// A chat completion whose outcome is not known is on its way to the store all the same, and whole.
func TestI3_ChatOfUnknownOutcomeIsStoredWhole(t *testing.T) {
	s := stuck{let: make(chan struct{})}
	var inner tasks.Store
	a := newAPI(t, func(c *Config) {
		s.Store, inner = c.Store, c.Store
		c.Store, c.Limits.SubmitTimeout, c.Limits.MaxChatWait = s, 50*time.Millisecond, time.Second
	})
	got := <-a.chat("k1", hello)
	got.chatError(t, 503, "overloaded", true)
	close(s.let)
	a.store = inner
	id := a.bound(tasks.OperationChat, "k1")
	if c := a.claimWork(id).Request.Chat; c == nil || len(c.Messages) == 0 {
		t.Errorf("chat %+v", c)
	}
}
