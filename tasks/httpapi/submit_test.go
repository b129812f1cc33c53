package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

func TestSubmitAnswersTheTaskAsItStands(t *testing.T) {
	a := newAPI(t, nil)
	got := a.do("POST", messages, `{"content":"Hello <you> & me","document":{"id":"d1","version":"7"},"metadata":{"a":"b"},"max_attempts":3,"deadline_seconds":60}`,
		"Idempotency-Key", "k1", "X-Request-Id", "req.42").want(t, http.StatusAccepted)
	task := got.object(t)
	if got.Header.Get("Location") != "/v1/tasks/"+task["id"].(string) {
		t.Errorf("Location %q", got.Header.Get("Location"))
	}
	if got.Header.Get("X-Request-Id") != "req.42" || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", got.Header)
	}
	if _, replayed := got.Header["Idempotency-Replayed"]; replayed {
		t.Error("a first request is called a replay")
	}
	accepted, err1 := time.Parse("2006-01-02T15:04:05.000000Z", task["accepted_at"].(string))
	deadline, err2 := time.Parse("2006-01-02T15:04:05.000000Z", task["deadline"].(string))
	if err := errors.Join(err1, err2); err != nil || deadline.Sub(accepted) != time.Minute {
		t.Errorf("accepted %v, deadline %v: %v", accepted, deadline, err)
	}
	want := map[string]any{
		"id": task["id"], "message_id": task["message_id"], "object": "reply_task", "workspace": "w1", "conversation": "c1",
		"kind": "reply", "status": "queued", "attempts": 0.0, "max_attempts": 3.0, "interruptions": 0.0, "assignment_version": 0.0,
		"accepted_at": task["accepted_at"], "available_at": task["accepted_at"], "deadline": task["deadline"],
		"model": "m-default", "document": map[string]any{"id": "d1", "version": "7"}, "metadata": map[string]any{"a": "b"},
		"reply": nil, "error": nil,
		"cost": map[string]any{"currency": "USD", "amount": "0", "input_tokens": 0.0, "output_tokens": 0.0, "unknown_attempts": 0.0},
	}
	if diff := cmp.Diff(want, task); diff != "" {
		t.Errorf("task (-want +got):\n%s", diff)
	}
	// What the answer was built of without a query is what a reader gets.
	if read := a.do("GET", got.Header.Get("Location"), ""); string(read.body) != string(got.body) {
		t.Errorf("read   %s\nanswer %s", read.body, got.body)
	}
}

func TestI6_RepeatIsTheSameTask(t *testing.T) {
	a := newAPI(t, nil)
	const body = `{"content":"hi"}`
	first := a.do("POST", messages, body, "Idempotency-Key", `a"b\c`).want(t, http.StatusAccepted)
	for _, key := range []string{`a"b\c`, `"a\"b\\c"`} {
		again := a.do("POST", messages, body, "Idempotency-Key", key).want(t, http.StatusAccepted)
		if again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("key %s: no Idempotency-Replayed", key)
		}
		if string(again.body) != string(first.body) || again.Header.Get("Location") != first.Header.Get("Location") {
			t.Errorf("key %s:\n%s\nfirst:\n%s", key, again.body, first.body)
		}
	}
	id := uuid.MustParse(first.object(t)["id"].(string))
	a.finish(id, "done")
	if now := a.do("POST", messages, body, "Idempotency-Key", `a"b\c`).want(t, http.StatusAccepted).object(t); now["status"] != "completed" {
		t.Errorf("a replay does not show the task as it stands: %v", now["status"])
	}
}

func TestI6_OtherInputsUnderTheKeyAreRefused(t *testing.T) {
	a := newAPI(t, nil)
	id := a.send("k1", `{"content":"hi"}`)
	for _, body := range []string{
		`{"content":"ho"}`, `{"content":"hi "}`, `{"content":"hi","model":"x"}`, `{"content":"hi","system":"x"}`,
		`{"content":"hi","document":{"id":"x"}}`, `{"content":"hi","prompt_template":"x"}`, `{"content":"hi","temperature":0}`,
		`{"content":"hi","max_output_tokens":1}`, `{"content":"hi","on_ambiguous":"stop"}`,
	} {
		p := a.do("POST", messages, body, "Idempotency-Key", "k1").problem(t, http.StatusUnprocessableEntity, "idempotency_key_reused")
		if p["task_id"] != id.String() {
			t.Errorf("%s: task_id %v, want %s", body, p["task_id"], id)
		}
	}
	a.do("POST", "/v1/conversations/c2/messages", `{"content":"hi"}`, "Idempotency-Key", "k1").problem(t, 422, "idempotency_key_reused")
	// What does not change the answer may change.
	a.do("POST", messages, `{"content":"hi","metadata":{"a":"b"},"max_attempts":1,"on_ambiguous":"retry"}`, "Idempotency-Key", "k1").want(t, 202)
}

func TestI6_NewDefaultModelDoesNotRefuseTheRepeat(t *testing.T) {
	store := memory.New(memory.Config{})
	id := newAPIOn(t, store, nil).send("k1", `{"content":"hi"}`)
	if got := newAPIOn(t, store, func(c *Config) { c.Defaults.Model = "m-new" }).send("k1", `{"content":"hi"}`); got != id {
		t.Errorf("task %s, want %s", got, id)
	}
}

func TestI6_ConcurrentRequestsOfOneKey(t *testing.T) { concurrentRequestsOfOneKey(t, newAPI(t, nil)) }

func concurrentRequestsOfOneKey(t *testing.T, a *api) {
	const n = 200
	answers := make([]answer, n)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			var err error
			if answers[i], err = a.try(context.Background(), "POST", messages, `{"content":"hi"}`, "Idempotency-Key", "k1"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	fresh := 0
	for _, got := range answers {
		got.want(t, http.StatusAccepted)
		if string(got.body) != string(answers[0].body) {
			t.Fatalf("answers differ:\n%s\n%s", got.body, answers[0].body)
		}
		if got.Header.Get("Idempotency-Replayed") == "" {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers are not called replays, want 1", fresh)
	}
	page, err := a.store.Tasks(t.Context(), tasks.Filter{Workspace: "w1"})
	if err != nil || len(page) != 1 {
		t.Errorf("%d tasks, %v; want 1", len(page), err)
	}
}

func TestI8_KeysOfTwoWorkspacesAreApart(t *testing.T) {
	a := newAPI(t, nil)
	mine := a.do("POST", messages, `{"content":"mine"}`, "Idempotency-Key", "k1").want(t, 202).object(t)
	theirs := a.do("POST", messages, `{"content":"theirs"}`, "Idempotency-Key", "k1", "Authorization", "Bearer "+a.other).want(t, 202).object(t)
	if mine["id"] == theirs["id"] || theirs["workspace"] != "w2" {
		t.Errorf("mine %v, theirs %v", mine, theirs)
	}
}

// spy hands on and remembers what was submitted.
type spy struct {
	tasks.Store
	mu    sync.Mutex
	items []tasks.Submission
}

func (s *spy) Submit(ctx context.Context, items []tasks.Submission) ([]tasks.Submitted, error) {
	s.mu.Lock()
	s.items = append(s.items, items...)
	s.mu.Unlock()
	return s.Store.Submit(ctx, items)
}

func TestSubmissionCarriesWhatWasAsked(t *testing.T) {
	var store *spy
	var woken atomic.Int32
	a := newAPI(t, func(c *Config) {
		store = &spy{Store: c.Store}
		c.Store = store
		c.Defaults.Retention = time.Hour
		c.OnSubmitted = func() { woken.Add(1) }
	})
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	body := `{"content":"hi","model":"m","system":"s","document":{"id":"d","version":"v"},"prompt_template":"p","temperature":-0.0,
		"max_output_tokens":9,"on_ambiguous":"stop","max_attempts":2,"deadline_seconds":7200,"metadata":{"k":"v"}}`
	a.do("POST", "/v1/conversations/caf%C3%A9%20%F0%9F%91%A9%E2%80%8D%F0%9F%9A%80/messages", body, "Idempotency-Key", "k1", "traceparent", trace).want(t, 202)
	got := store.items[0]
	zero, nine := 0.0, 9
	want := tasks.Submission{
		Workspace: "w1", Operation: tasks.OperationMessage, Key: "k1", Retention: 3 * time.Hour,
		TaskID: got.TaskID, MessageID: got.MessageID, Conversation: "café 👩\u200d🚀", Kind: tasks.KindReply,
		Request: tasks.Request{Content: "hi", Model: "m", System: "s", PromptTemplate: "p", Document: tasks.Document{ID: "d", Version: "v"},
			Temperature: &zero, MaxOutputTokens: &nine},
		MaxAttempts: 2, MaxInterruptions: 10, DeadlineAfter: 2 * time.Hour, OnAmbiguous: tasks.AmbiguousStop,
		Metadata: map[string]string{"k": "v"}, TraceParent: trace,
	}
	want.Fingerprint = want.ComputeFingerprint()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("submission (-want +got):\n%s", diff)
	}
	if got.TaskID.Version() != 7 || got.MessageID.Version() != 7 {
		t.Errorf("ids %s and %s are not UUIDv7", got.TaskID, got.MessageID)
	}
	if woken.Load() != 1 {
		t.Errorf("OnSubmitted was called %d times, want 1", woken.Load())
	}
	a.do("POST", "/v1/conversations/caf%C3%A9%20%F0%9F%91%A9%E2%80%8D%F0%9F%9A%80/messages", body, "Idempotency-Key", "k1").want(t, 202)
	if woken.Load() != 1 {
		t.Error("OnSubmitted was called for a replay")
	}
}

func TestBadInput(t *testing.T) {
	a := newAPI(t, nil)
	const ok = `{"content":"hi"}`
	long := func(n int) string { return strings.Repeat("x", n) }
	field := func(name, value string) string { return fmt.Sprintf(`{"content":"hi","%s":%s}`, name, value) }
	manyEntries := `{"content":"hi","metadata":{`
	for i := range maxMetadata + 1 {
		manyEntries += fmt.Sprintf(`%s"k%d":"v"`, strings.Repeat(",", min(i, 1)), i)
	}
	manyEntries += "}}"
	for _, test := range []struct {
		name, path, body string
		headers          []string
		status           int
		code, field      string
	}{
		{name: "no key", body: ok, headers: []string{"Idempotency-Key", ""}, status: 400, code: "idempotency_key_missing"},
		{name: "long key", body: ok, headers: []string{"Idempotency-Key", long(300)}, status: 400, code: "idempotency_key_invalid"},
		{name: "key outside ASCII", body: ok, headers: []string{"Idempotency-Key", "schlüssel"}, status: 400, code: "idempotency_key_invalid"},
		{name: "key with a tab", body: ok, headers: []string{"Idempotency-Key", "a\tb"}, status: 400, code: "idempotency_key_invalid"},
		{name: "empty quoted key", body: ok, headers: []string{"Idempotency-Key", `""`}, status: 400, code: "idempotency_key_invalid"},
		{name: "open quote", body: ok, headers: []string{"Idempotency-Key", `"abc`}, status: 400, code: "idempotency_key_invalid"},
		{name: "escaped last quote", body: ok, headers: []string{"Idempotency-Key", `"abc\"`}, status: 400, code: "idempotency_key_invalid"},

		{name: "not JSON", body: `{"content":`, status: 400, code: "invalid_request", field: "body"},
		{name: "malformed", body: `{content:"hi"}`, status: 400, code: "invalid_request", field: "body"},
		{name: "no body", body: ` `, status: 400, code: "invalid_request", field: "body"},
		{name: "array", body: `["hi"]`, status: 400, code: "invalid_request", field: "body"},
		{name: "null", body: `null`, status: 400, code: "invalid_request", field: "body"},
		{name: "two values", body: ok + ok, status: 400, code: "invalid_request", field: "body"},
		{name: "trailing garbage", body: ok + "]", status: 400, code: "invalid_request", field: "body"},
		{name: "invalid UTF-8", body: "{\"content\":\"\xff\"}", status: 400, code: "invalid_request", field: "body"},
		{name: "lone high surrogate", body: `{"content":"\ud83d!"}`, status: 400, code: "invalid_request", field: "body"},
		{name: "lone low surrogate", body: `{"content":"\\\uDE00"}`, status: 400, code: "invalid_request", field: "body"},
		{name: "unknown field", body: field("contents", `"x"`), status: 400, code: "invalid_request", field: "contents"},
		{name: "unknown field within", body: field("document", `{"id":"d","page":1}`), status: 400, code: "invalid_request", field: "page"},
		{name: "form", body: "content=hi", headers: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, code: "invalid_request", field: "Content-Type"},
		{name: "no content type", body: ok, headers: []string{"Content-Type", ""}, status: 415, code: "invalid_request", field: "Content-Type"},
		{name: "other charset", body: ok, headers: []string{"Content-Type", "application/json; charset=latin1"}, status: 415, code: "invalid_request", field: "Content-Type"},
		{name: "gzip", body: ok, headers: []string{"Content-Encoding", "gzip"}, status: 415, code: "invalid_request", field: "Content-Encoding"},
		{name: "query", path: messages + "?dry_run=1", body: ok, status: 400, code: "invalid_request", field: "dry_run"},

		{name: "content missing", body: `{}`, status: 400, code: "invalid_request", field: "content"},
		{name: "content null", body: `{"content":null}`, status: 400, code: "invalid_request", field: "content"},
		{name: "content empty", body: `{"content":""}`, status: 400, code: "invalid_request", field: "content"},
		{name: "content of white space", body: `{"content":" \n\t\u2003"}`, status: 400, code: "invalid_request", field: "content"},
		{name: "content a number", body: `{"content":1}`, status: 400, code: "invalid_request", field: "content"},
		{name: "content with NUL", body: `{"content":"a\u0000b"}`, status: 400, code: "invalid_request", field: "content"},
		{name: "content over the limit", body: `{"content":"` + long(256<<10+1) + `"}`, status: 413, code: "too_large", field: "content"},
		{name: "content of 1 MB", body: `{"content":"` + long(1_000_000) + `"}`, status: 413, code: "too_large", field: "content"},
		{name: "content of 1 MiB", body: `{"content":"` + long(1<<20) + `"}`, status: 413, code: "too_large", field: "content"},
		{name: "body of 4 MiB", body: `{"content":"` + long(4<<20) + `"}`, status: 413, code: "too_large", field: "body"},
		{name: "model", body: field("model", `"`+long(129)+`"`), status: 413, code: "too_large", field: "model"},
		{name: "model with NUL", body: field("model", `"\u0000"`), status: 400, code: "invalid_request", field: "model"},
		{name: "system", body: field("system", `"`+long(64<<10+1)+`"`), status: 413, code: "too_large", field: "system"},
		{name: "document a string", body: field("document", `"d"`), status: 400, code: "invalid_request", field: "document"},
		{name: "document without id", body: field("document", `{"version":"1"}`), status: 400, code: "invalid_request", field: "document.id"},
		{name: "document id", body: field("document", `{"id":"`+long(257)+`"}`), status: 413, code: "too_large", field: "document.id"},
		{name: "document version", body: field("document", `{"id":"d","version":"`+long(257)+`"}`), status: 413, code: "too_large", field: "document.version"},
		{name: "document id a number", body: field("document", `{"id":5}`), status: 400, code: "invalid_request", field: "document.id"},
		{name: "prompt template", body: field("prompt_template", `"`+long(129)+`"`), status: 413, code: "too_large", field: "prompt_template"},
		{name: "temperature high", body: field("temperature", "2.01"), status: 400, code: "invalid_request", field: "temperature"},
		{name: "temperature low", body: field("temperature", "-0.01"), status: 400, code: "invalid_request", field: "temperature"},
		{name: "temperature endless", body: field("temperature", "1e999"), status: 400, code: "invalid_request", field: "temperature"},
		{name: "temperature a string", body: field("temperature", `"1"`), status: 400, code: "invalid_request", field: "temperature"},
		{name: "tokens 0", body: field("max_output_tokens", "0"), status: 400, code: "invalid_request", field: "max_output_tokens"},
		{name: "tokens high", body: field("max_output_tokens", "1000001"), status: 400, code: "invalid_request", field: "max_output_tokens"},
		{name: "tokens a fraction", body: field("max_output_tokens", "1.5"), status: 400, code: "invalid_request", field: "max_output_tokens"},
		{name: "on_ambiguous", body: field("on_ambiguous", `"maybe"`), status: 400, code: "invalid_request", field: "on_ambiguous"},
		{name: "attempts 0", body: field("max_attempts", "0"), status: 400, code: "invalid_request", field: "max_attempts"},
		{name: "attempts high", body: field("max_attempts", "21"), status: 400, code: "invalid_request", field: "max_attempts"},
		{name: "deadline 0", body: field("deadline_seconds", "0"), status: 400, code: "invalid_request", field: "deadline_seconds"},
		{name: "deadline high", body: field("deadline_seconds", "86401"), status: 400, code: "invalid_request", field: "deadline_seconds"},
		{name: "metadata a list", body: field("metadata", `["a"]`), status: 400, code: "invalid_request", field: "metadata"},
		{name: "metadata of numbers", body: field("metadata", `{"a":1}`), status: 400, code: "invalid_request", field: "metadata"},
		{name: "metadata entries", body: manyEntries, status: 400, code: "invalid_request", field: "metadata"},
		{name: "metadata key empty", body: field("metadata", `{"":"v"}`), status: 400, code: "invalid_request", field: "metadata"},
		{name: "metadata key", body: field("metadata", `{"`+long(65)+`":"v"}`), status: 413, code: "too_large", field: "metadata"},
		{name: "metadata value", body: field("metadata", `{"k":"`+long(513)+`"}`), status: 413, code: "too_large", field: "metadata.k"},
		{name: "metadata NUL", body: field("metadata", `{"k":"\u0000"}`), status: 400, code: "invalid_request", field: "metadata.k"},

		{name: "long conversation", path: "/v1/conversations/" + long(256) + "/messages", body: ok, status: 400, code: "invalid_request", field: "conversation"},
		{name: "conversation with a slash", path: "/v1/conversations/a%2Fb/messages", body: ok, status: 400, code: "invalid_request", field: "conversation"},
		{name: "conversation with NUL", path: "/v1/conversations/a%00b/messages", body: ok, status: 400, code: "invalid_request", field: "conversation"},
		{name: "conversation with a line end", path: "/v1/conversations/a%0Ab/messages", body: ok, status: 400, code: "invalid_request", field: "conversation"},
		{name: "conversation not UTF-8", path: "/v1/conversations/a%FFb/messages", body: ok, status: 400, code: "invalid_request", field: "conversation"},
		{name: "conversation of dots", path: "/v1/conversations/%2e%2e/messages", body: ok, status: 400, code: "invalid_request", field: "conversation"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.path == "" {
				test.path = messages
			}
			got := a.do("POST", test.path, test.body, append([]string{"Idempotency-Key", "k"}, test.headers...)...)
			p := got.problem(t, test.status, test.code)
			if name, _ := p["field"].(string); name != test.field {
				t.Errorf("field %q, want %q: %s", name, test.field, got.body)
			}
		})
	}
	if page, err := a.store.Tasks(t.Context(), tasks.Filter{}); err != nil || len(page) != 0 {
		t.Errorf("bad input made %d tasks, %v", len(page), err)
	}
	// None of them bound the key.
	a.send("k", ok)
	// What is at the limits is accepted.
	a.send("full", `{"content":"`+long(256<<10)+`","system":"`+long(64<<10)+`","model":"`+long(128)+`","temperature":2}`)
	a.send("escaped", `{"content":"`+strings.Repeat(`\u0041`, 256<<10)+`","system":"`+strings.Repeat(`\u0041`, 64<<10)+`"}`)
	a.send("surrogates", `{"content":"\\ud83d \ud83d\ude00 \ufffd"}`)
	a.send(long(255), ok)
}

func TestSeveralKeyHeadersAreRefused(t *testing.T) {
	h := http.Header{"Idempotency-Key": {"a", "a"}}
	if _, p := ownKey(h); p == nil || p.Code != "idempotency_key_invalid" {
		t.Errorf("problem %v", p)
	}
}

func TestNoModelAnywhere(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.Defaults.Model = "" })
	p := a.do("POST", messages, `{"content":"hi"}`, "Idempotency-Key", "k").problem(t, 400, "invalid_request")
	if p["field"] != "model" {
		t.Errorf("field %v", p["field"])
	}
}
