package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
	"github.com/fencepost/fencepost/tasks/postgres"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

const natural = "Fencepost-Natural-Key"

func TestKeyOf(t *testing.T) {
	for _, test := range []struct {
		header  http.Header
		op, key string
		code    string
	}{
		{http.Header{}, "", "", "idempotency_key_missing"},
		{http.Header{keyHeader: {"k"}}, "own", "k", ""},
		{http.Header{keyHeader: {`"k"`}}, "own", "k", ""},
		{http.Header{natural: {"summary:doc:hash"}}, tasks.OperationNatural, "summary:doc:hash", ""},
		{http.Header{natural: {`"summary:doc:hash"`}}, tasks.OperationNatural, "summary:doc:hash", ""},
		{http.Header{natural: {"n"}, keyHeader: {"k"}}, tasks.OperationNatural, "n", ""},
		{http.Header{natural: {"n"}, keyHeader: {""}}, "", "", "idempotency_key_invalid"},
		{http.Header{natural: {""}, keyHeader: {"k"}}, "", "", "idempotency_key_invalid"},
		{http.Header{natural: {"é"}}, "", "", "idempotency_key_invalid"},
		{http.Header{natural: {"a", "a"}}, "", "", "idempotency_key_invalid"},
		{http.Header{natural: {strings.Repeat("n", 256)}}, "", "", "idempotency_key_invalid"},
	} {
		op, key, p := keyOf(test.header, "own")
		code := ""
		if p != nil {
			code = p.Code
		}
		if op != test.op || key != test.key || code != test.code {
			t.Errorf("%v: operation %q, key %q, problem %v, want %q, %q, %q", test.header, op, key, p, test.op, test.key, test.code)
		}
	}
}

// Callers of one workspace who know nothing of each other share the work under a natural key, but not what was done under
// an Idempotency-Key of the same text, and never with another workspace.
func TestI6_NaturalKeysAreSharedByAWorkspace(t *testing.T) {
	a := newAPI(t, nil)
	const body = `{"content":"Summarise.","document":{"id":"doc","version":"7"}}`
	first := a.do("POST", messages, body, natural, "summary:doc:7").want(t, 202)
	id := first.object(t)["id"]
	for _, headers := range [][]string{
		{natural, `"summary:doc:7"`},
		{natural, "summary:doc:7", "Idempotency-Key", "of a caller"},
		{natural, "summary:doc:7", "Idempotency-Key", "of another"},
	} {
		again := a.do("POST", messages, body, headers...).want(t, 202)
		if again.object(t)["id"] != id || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%v: %v %s", headers, again.Header, again.body)
		}
	}
	for name, headers := range map[string][]string{
		"another revision":   {natural, "summary:doc:8"},
		"an Idempotency-Key": {"Idempotency-Key", "summary:doc:7"},
		"the key of a replayed request, which bound nothing": {"Idempotency-Key", "of a caller"},
		"another workspace": {natural, "summary:doc:7", "Authorization", "Bearer " + a.other},
	} {
		if other := a.do("POST", messages, body, headers...).want(t, 202); other.object(t)["id"] == id || other.Header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: %v %s", name, other.Header, other.body)
		}
	}
	a.do("POST", messages, `{"content":"Translate."}`, natural, "summary:doc:7").problem(t, 422, "idempotency_key_reused")
	a.do("POST", "/v1/conversations/c2/messages", body, natural, "summary:doc:7").problem(t, 422, "idempotency_key_reused")
}

// What a client or a proxy does to a body without changing what it says leaves it the same request.
func TestI6_SpellingsOfOneRequest(t *testing.T) {
	a := newAPI(t, nil)
	spellings := []string{
		`{"content":"café","temperature":0.5,"max_output_tokens":100,"document":{"id":"d","version":"1"},"metadata":{"a":"1"}}`,
		`{"document":{"version":"1","id":"d"},"max_output_tokens":100,"temperature":0.5,"content":"café"}`,
		`{"content":"café","temperature":5e-1,"max_output_tokens":1e2,"document":{"id":"d","version":"1"}}`,
		`{"content":"café","temperature":0.500,"max_output_tokens":100.0,"document":{"id":"d","version":"1"}}`,
		"{\n  \"content\": \"cafe\\u0301\", \"temperature\": 0.5, \"max_output_tokens\": 100, \"document\": {\"id\": \"\\u0064\", \"version\": \"1\"}\n}",
		`{"content":"caf\u00e9","temperature":0.5,"max_output_tokens":100,"document":{"id":"d","version":"1"},"on_ambiguous":"retry","system":""}`,
	}
	first := a.send("k", spellings[0])
	for _, body := range spellings {
		if got := a.send("k", body); got != first {
			t.Errorf("%s is another task", body)
		}
	}
	for _, body := range []string{
		`{"content":"cafe","temperature":0.5,"max_output_tokens":100,"document":{"id":"d","version":"1"}}`,
		`{"content":"café","temperature":0.51,"max_output_tokens":100,"document":{"id":"d","version":"1"}}`,
		`{"content":"café","temperature":0.5,"max_output_tokens":101,"document":{"id":"d","version":"1"}}`,
		`{"content":"café","temperature":0.5,"max_output_tokens":100,"document":{"id":"d","version":"2"}}`,
		`{"content":"café","temperature":0.5,"max_output_tokens":100}`,
	} {
		a.do("POST", messages, body, "Idempotency-Key", "k").problem(t, 422, "idempotency_key_reused")
	}
}

// clock is a store's clock that the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Every answer says until when its key is known. Until then a repeat is the same work; from then on it is new work.
func TestI6_AKeyIsKnownUntilItExpires(t *testing.T) {
	c := &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	a := newAPIOn(t, memory.New(memory.Config{Now: c.read}), func(c *Config) { c.Defaults.Retention = 48 * time.Hour })
	expires := func(got answer) time.Time {
		t.Helper()
		at, err := time.Parse(time.RFC3339Nano, got.Header.Get("Idempotency-Expires"))
		if err != nil || !strings.HasSuffix(got.Header.Get("Idempotency-Expires"), "Z") {
			t.Fatalf("Idempotency-Expires %q, %v", got.Header.Get("Idempotency-Expires"), err)
		}
		return at
	}
	post := func(key, body string) answer {
		return a.do("POST", messages, body, "Idempotency-Key", key).want(t, 202)
	}
	first := post("k", `{"content":"hi"}`)
	at := expires(first)
	if left := at.Sub(c.read()); left > 48*time.Hour || left < 48*time.Hour-time.Second {
		t.Errorf("the key is known for %s, want 48h", left)
	}
	a.finish(uuid.MustParse(first.object(t)["id"].(string)), "hello")
	c.advance(47 * time.Hour)
	again := post("k", `{"content":"hi"}`)
	if again.Header.Get("Idempotency-Replayed") != "true" || !expires(again).Equal(at) {
		t.Errorf("before it expires, at %s: %v", at, again.Header)
	}
	c.advance(2 * time.Hour)
	anew := post("k", `{"content":"hi"}`)
	if anew.Header.Get("Idempotency-Replayed") != "" || anew.object(t)["id"] == first.object(t)["id"] || !expires(anew).After(at) {
		t.Errorf("after it expired, at %s: %v %s", at, anew.Header, anew.body)
	}
	// A task that runs longer than keys are kept keeps its own.
	if left := expires(post("long", `{"content":"hi","deadline_seconds":86400}`)).Sub(c.read()); left < 24*time.Hour+30*time.Minute {
		t.Errorf("the key of a task of a day is known for %s", left)
	}
}

// The key outlives the deadline also where keys are kept for less.
func TestI6_AKeyOutlivesItsTask(t *testing.T) {
	var store *spy
	a := newAPI(t, func(c *Config) {
		store = &spy{Store: c.Store}
		c.Store, c.Defaults.Retention = store, time.Minute
	})
	a.send("k", `{"content":"hi","deadline_seconds":86400}`)
	if got := store.items[0]; got.Retention <= got.DeadlineAfter {
		t.Errorf("known for %s, deadline after %s", got.Retention, got.DeadlineAfter)
	}
}

// A replay of finished work says what a second call would have cost; one of work that goes on has saved nothing yet, and
// what is not known is not said.
func TestAReplaySaysWhatItSaved(t *testing.T) {
	a := newAPI(t, nil)
	saved := func(headers ...string) [2]string {
		t.Helper()
		h := a.do("POST", messages, `{"content":"hi"}`, headers...).want(t, 202).Header
		return [2]string{h.Get("Fencepost-Saved-Amount"), h.Get("Fencepost-Saved-Tokens")}
	}
	id := a.send("k", `{"content":"hi"}`)
	if got := saved("Idempotency-Key", "k"); got != [2]string{} {
		t.Errorf("a queued task saved %q", got)
	}
	a.finish(id, "hello")
	if got, want := saved("Idempotency-Key", "k"), [2]string{"0.000123", "46"}; got != want {
		t.Errorf("saved %q, want %q", got, want)
	}
	if got := saved("Idempotency-Key", "new"); got != [2]string{} {
		t.Errorf("new work saved %q", got)
	}
	// Of an attempt of which nothing was heard nobody knows the cost.
	lost := a.send("lost", `{"content":"hi"}`)
	claimed, err := a.store.Claim(t.Context(), tasks.Claimer{Worker: "w", Lease: time.Minute, ParkMax: time.Minute, Provider: "sim"},
		[]tasks.Ref{{TaskID: lost, Workspace: "w1"}})
	if err != nil || claimed[0].Decision != tasks.DecisionClaimed {
		t.Fatal(claimed, err)
	}
	a.do("POST", "/v1/tasks/"+lost.String()+"/cancel", "").want(t, 200)
	if got := saved("Idempotency-Key", "lost"); got[0] != "" {
		t.Errorf("an unknown amount is %q", got)
	}
}

// 200 submissions of one key at once, to two processes on one database, quoted and bare: one task, one message, 200 equal
// answers of which one is not a replay.
func TestI6_ConcurrentRequestsOfOneKeyToTwoProcesses(t *testing.T) {
	url := pgtest.URL(t)
	open := func() *api {
		store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		return newAPIOn(t, store, nil)
	}
	processes := [2]*api{open(), open()}
	const n = 200
	answers := make([]answer, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			<-start
			var err error
			key := []string{"k1", `"k1"`}[i/2%2]
			if answers[i], err = processes[i%2].try(context.Background(), "POST", messages, `{"content":"hi"}`, "Idempotency-Key", key); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	if t.Failed() {
		return
	}
	fresh := 0
	for _, got := range answers {
		got.want(t, http.StatusAccepted)
		if string(got.body) != string(answers[0].body) || got.Header.Get("Location") != answers[0].Header.Get("Location") ||
			got.Header.Get("Idempotency-Expires") != answers[0].Header.Get("Idempotency-Expires") || got.Header.Get("Idempotency-Expires") == "" {
			t.Fatalf("answers differ:\n%v %s\n%v %s", got.Header, got.body, answers[0].Header, answers[0].body)
		}
		if got.Header.Get("Idempotency-Replayed") == "" {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers are not called replays, want 1", fresh)
	}
	chat := processes[0].do("GET", messages, "").want(t, 200).object(t)["messages"].([]any)
	page := processes[1].do("GET", "/v1/tasks", "").want(t, 200).object(t)["tasks"].([]any)
	if len(chat) != 1 || len(page) != 1 {
		t.Errorf("%d messages and %d tasks, want one of each", len(chat), len(page))
	}
}

// What is read of the headers is storable or a problem that names the rule, whatever the two headers hold.
func FuzzKeyOf(f *testing.F) {
	f.Add("k", "", true, false)
	f.Add(`"k"`, `summary:doc:hash`, true, true)
	f.Add("\x00", `"a\"b"`, true, true)
	f.Fuzz(func(t *testing.T, own, shared string, hasOwn, hasShared bool) {
		h := http.Header{}
		if hasOwn {
			h[keyHeader] = []string{own}
		}
		if hasShared {
			h[naturalHeader] = []string{shared}
		}
		op, key, p := keyOf(h, "own")
		switch {
		case p != nil:
			if op != "" || key != "" || p.Status != 400 || (p.Code == "idempotency_key_missing") != (!hasOwn && !hasShared) {
				t.Fatalf("%q: %q, %q, %v", h, op, key, p)
			}
		case !tasks.ValidKey(key), (op == tasks.OperationNatural) != hasShared, !hasShared && op != "own":
			t.Fatalf("%q: %q, %q", h, op, key)
		}
	})
}
