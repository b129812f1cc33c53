package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func (a *api) regenerate(id uuid.UUID, key, body string) answer {
	a.t.Helper()
	return a.do("POST", "/v1/tasks/"+id.String()+"/regenerate", body, "Idempotency-Key", key)
}

func idOf(t testing.TB, a answer) uuid.UUID {
	t.Helper()
	return uuid.MustParse(a.object(t)["id"].(string))
}

// fail ends a task for good, as a worker would.
func (a *api) fail(id uuid.UUID) {
	a.t.Helper()
	a.settle(a.claim(id), tasks.Settlement{Outcome: tasks.OutcomeFail, Failure: tasks.Failure{Class: "permanent", Message: "no"}})
}

func TestI6_RegenerateIsNewWorkUnderItsOwnKey(t *testing.T) {
	regenerated(t, newAPI(t, nil))
}

func TestI6_PostgresRegenerateIsNewWorkUnderItsOwnKey(t *testing.T) {
	regenerated(t, newPostgresAPI(t, nil))
}

func regenerated(t *testing.T, a *api) {
	first := a.send("k1", `{"content":"hi","system":"s","document":{"id":"d","version":"2"},"temperature":0.5,"max_output_tokens":7,
		"on_ambiguous":"stop","max_attempts":1,"deadline_seconds":60,"metadata":{"a":"b"}}`)
	a.finish(first, "one")

	// The key of the message is another operation's.
	made := a.regenerate(first, "k1", "").want(t, http.StatusAccepted)
	second := idOf(t, made)
	task := made.object(t)
	if second == first || task["kind"] != "regenerate" || task["regenerates"] != first.String() || task["status"] != "queued" ||
		task["max_attempts"] != 5.0 || task["metadata"].(map[string]any)["a"] != "b" || made.Header.Get("Location") != "/v1/tasks/"+second.String() ||
		made.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("made %v %s", made.Header, made.body)
	}
	was, err := a.store.Original(t.Context(), "w1", first)
	if err != nil {
		t.Fatal(err)
	}
	is, err := a.store.Original(t.Context(), "w1", second)
	if err != nil {
		t.Fatal(err)
	}
	if is.MessageID != was.MessageID || is.Conversation != was.Conversation || is.OnAmbiguous != tasks.AmbiguousStop ||
		is.Request.Content != "hi" || is.Request.System != "s" || is.Request.Document != was.Request.Document ||
		*is.Request.Temperature != 0.5 || *is.Request.MaxOutputTokens != 7 || is.Request.Model != "m-default" {
		t.Errorf("asked\n%+v, was\n%+v", is, was)
	}
	for _, body := range []string{"", "{}", " ", `{"model":null}`} {
		again := a.regenerate(first, `"k1"`, body).want(t, http.StatusAccepted)
		if idOf(t, again) != second || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("again with %q: %v %s", body, again.Header, again.body)
		}
	}
	// The same key for another message, or with another wish, is not the same work.
	other := a.send("k2", `{"content":"hi"}`)
	if p := a.regenerate(other, "k1", "").problem(t, 422, "idempotency_key_reused"); p["task_id"] != second.String() {
		t.Errorf("problem %v", p)
	}
	a.regenerate(first, "k1", `{"temperature":1}`).problem(t, 422, "idempotency_key_reused")
	a.regenerate(second, "k1", "").problem(t, 422, "idempotency_key_reused") // the same message, but another press

	// Running, failed and cancelled ones are answered anew as well; what failed changes nothing of what is current.
	third := idOf(t, a.regenerate(second, "k3", `{"model":"m-2","temperature":-0,"max_output_tokens":9.0,"metadata":{"c":"d"}}`).want(t, http.StatusAccepted))
	if o, err := a.store.Original(t.Context(), "w1", third); err != nil || o.Request.Model != "m-2" || *o.Request.Temperature != 0 || *o.Request.MaxOutputTokens != 9 ||
		len(o.Metadata) != 1 || o.Metadata["c"] != "d" || o.Regenerates != second {
		t.Errorf("asked %+v, %v", o, err)
	}
	a.finish(second, "two")
	a.fail(third)
	a.wantReplies("one", "two")
	fourth := idOf(t, a.regenerate(third, "k4", "").want(t, http.StatusAccepted))
	a.do("POST", "/v1/tasks/"+fourth.String()+"/cancel", "").want(t, 200)
	fifth := idOf(t, a.regenerate(fourth, "k5", "").want(t, http.StatusAccepted))
	a.finish(fifth, "five")
	a.wantReplies("one", "two", "five")
}

// wantReplies wants these under the first message of c1, the last of them current.
func (a *api) wantReplies(want ...string) {
	a.t.Helper()
	message := a.do("GET", messages, "").want(a.t, 200).object(a.t)["messages"].([]any)[0].(map[string]any)
	var texts []string
	for i, r := range message["replies"].([]any) {
		reply := r.(map[string]any)
		texts = append(texts, reply["text"].(string))
		if reply["current"] != (i == len(want)-1) {
			a.t.Errorf("reply %d: current is %v", i, reply["current"])
		}
	}
	if strings.Join(texts, ",") != strings.Join(want, ",") {
		a.t.Errorf("replies %q, want %q", texts, want)
	}
}

func TestRegenerateRefusals(t *testing.T) {
	a := newAPI(t, nil)
	id := a.send("k1", `{"content":"hi"}`)
	path := "/v1/tasks/" + id.String() + "/regenerate"
	a.do("POST", path, "").problem(t, 400, "idempotency_key_missing")
	a.do("POST", path, "", "Idempotency-Key", "ä").problem(t, 400, "idempotency_key_invalid")
	a.do("POST", path+"?x=1", "", "Idempotency-Key", "k").problem(t, 400, "invalid_request")
	a.do("GET", path, "").problem(t, 405, "method_not_allowed")
	for body, field := range map[string]string{
		`{"content":"other"}`: "content", `{"system":"x"}`: "system", `{"temperature":3}`: "temperature", `{"temperature":"1"}`: "temperature",
		`{"max_output_tokens":0}`: "max_output_tokens", `{"metadata":{"":"x"}}`: "metadata", `[]`: "body", `{} {}`: "body", `{"model":"\ud800"}`: "body",
		`{"model":"` + strings.Repeat("m", maxModel+1) + `"}`: "model",
	} {
		answer := a.do("POST", path, body, "Idempotency-Key", "k")
		status, code := 400, "invalid_request"
		if strings.Contains(body, "mmm") {
			status, code = 413, "too_large"
		}
		if p := answer.problem(t, status, code); p["field"] != field {
			t.Errorf("%s: field %v", body, p["field"])
		}
	}
	a.do("POST", path, `{"model":"`+strings.Repeat("m", int(overridesLimit))+`"}`, "Idempotency-Key", "k").tooLarge(t, "body")
	a.do("POST", path, `{}`, "Idempotency-Key", "k", "Content-Type", "text/plain").problem(t, 415, "invalid_request")

	// Another workspace's task, one that is not there, and what is no id are the same.
	want := a.do("POST", "/v1/tasks/"+uuid.NewString()+"/regenerate", "", "Idempotency-Key", "k")
	want.problem(t, 404, "not_found")
	for _, got := range []answer{
		a.do("POST", path, "", "Idempotency-Key", "k", "Authorization", "Bearer "+a.other), a.do("POST", "/v1/tasks/x/regenerate", "", "Idempotency-Key", "k"),
	} {
		if string(got.body) != string(want.body) {
			t.Errorf("%s, want %s", got.body, want.body)
		}
	}
	if page := a.do("GET", "/v1/tasks", "").want(t, 200).object(t)["tasks"].([]any); len(page) != 1 {
		t.Errorf("%d tasks, want the message's", len(page))
	}
}

func TestRegenerateKeepsTheTemplateOfItsMessage(t *testing.T) {
	listed := templates(t, Template{Name: "p", Version: "1", Text: "be brief", Current: true})
	a := newAPI(t, func(c *Config) { c.Templates = listed })
	id := a.send("k1", `{"content":"hi","prompt_template":"p","system":"own"}`)
	was, err := a.store.Original(t.Context(), "w1", id)
	if err != nil {
		t.Fatal(err)
	}
	a.server.templates = &Templates{} // the operator has taken it out
	again, err := a.store.Original(t.Context(), "w1", idOf(t, a.regenerate(id, "k2", "").want(t, http.StatusAccepted)))
	if err != nil || again.Request.System != was.Request.System || again.Request.PromptTemplate != "p" || again.Request.PromptTemplateVersion != "1" {
		t.Errorf("asked %+v, %v; was %+v", again.Request, err, was.Request)
	}
}

func TestRegenerateOfAChatCompletionSendsItAsItWas(t *testing.T) {
	chat := tasks.Submission{Request: tasks.Request{Content: "hi", Model: "m", Chat: &tasks.Chat{Messages: []byte(`[]`)}}}
	temperature, n := 1.0, whole(5)
	for field, o := range map[string]overrides{"temperature": {Temperature: &temperature}, "max_output_tokens": {MaxOutputTokens: &n}} {
		if p := o.apply(&chat, Limits{MaxContent: 1}); p == nil || p.Field != field {
			t.Errorf("%s: %v", field, p)
		}
	}
	if p := (overrides{Model: "m2"}).apply(&chat, Limits{MaxContent: 1}); p != nil || chat.Request.Model != "m2" {
		t.Errorf("model %q, %v", chat.Request.Model, p)
	}
}

// tooLarge wants that this part of the request is.
func (a answer) tooLarge(t testing.TB, field string) {
	t.Helper()
	if p := a.problem(t, 413, "too_large"); p["field"] != field {
		t.Errorf("problem %v, want the field %s", p, field)
	}
}
