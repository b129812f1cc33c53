package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, pgtest.IgnoreServer()) }

// writeTimeout is the WriteTimeout of the servers that are made next.
var writeTimeout = time.Minute

// patience bounds what a test waits for; only a failing test waits that long.
const patience = 20 * time.Second

// api is a running server with two workspaces.
type api struct {
	t      testing.TB
	server *Server
	store  tasks.Store
	url    string
	client *http.Client
	secret string // of workspace w1
	other  string // of workspace w2
}

// keysAndTasks is what memory and Postgres both are.
type keysAndTasks interface {
	tasks.Store
	KeyStore
	Bindings
	tasks.Watched
	tasks.LiveTexts
	CreateKey(ctx context.Context, workspace, name string, hash [32]byte, scopes ...tasks.Scope) (tasks.Key, error)
}

func newAPI(t testing.TB, change func(*Config)) *api {
	t.Helper()
	return newAPIOn(t, memory.New(memory.Config{}), change)
}

// newAPIOn runs a server on the store, with a key of each workspace.
func newAPIOn(t testing.TB, store keysAndTasks, change func(*Config)) *api {
	t.Helper()
	c := Config{Store: store, Watched: store, Live: store, Keys: store, Bindings: store, Defaults: Defaults{Model: "m-default"}, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&c)
	}
	server, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	a := &api{t: t, server: server, store: c.Store, secret: tasks.NewKey(), other: tasks.NewKey()}
	for workspace, secret := range map[string]string{"w1": a.secret, "w2": a.other} {
		if _, err := store.CreateKey(t.Context(), workspace, "test", tasks.HashKey(secret)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	web := httptest.NewUnstartedServer(server.Handler())
	web.Config.WriteTimeout = writeTimeout
	web.Start()
	a.url = web.URL
	transport := &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}
	a.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		server.Drain()
		transport.CloseIdleConnections()
		web.Close()
		stop()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return a
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	body []byte
}

func (a answer) object(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("status %d, body %q: %v", a.StatusCode, a.body, err)
	}
	return v
}

func (a answer) want(t testing.TB, status int) answer {
	t.Helper()
	if a.Response == nil {
		t.Fatal("no answer")
	}
	if a.StatusCode != status {
		t.Fatalf("status %d, want %d; body %s", a.StatusCode, status, a.body)
	}
	return a
}

// problem checks that the answer is a problem+json of this status and code, and returns it.
func (a answer) problem(t testing.TB, status int, code string) map[string]any {
	t.Helper()
	a.want(t, status)
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q of a problem", got)
	}
	v := a.object(t)
	for _, name := range []string{"type", "title", "detail"} {
		if s, _ := v[name].(string); s == "" {
			t.Errorf("problem has no %s: %s", name, a.body)
		}
	}
	if v["code"] != code || v["status"] != float64(status) {
		t.Errorf("problem %s, want code %s and status %d", a.body, code, status)
	}
	return v
}

// do sends a request; headers are name, value, name, value. A header of the test replaces the kit's own, an empty one
// removes it.
func (a *api) do(method, path, body string, headers ...string) answer {
	a.t.Helper()
	answer, err := a.try(context.Background(), method, path, body, headers...)
	if err != nil {
		a.t.Fatal(err)
	}
	return answer
}

func (a *api) try(ctx context.Context, method, path, body string, headers ...string) (answer, error) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, a.url+path, reader)
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Authorization", "Bearer "+a.secret)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Del(headers[i]); headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	got := answer{resp, b.Bytes()}
	if err == nil {
		a.documented(method, path, got)
	}
	return got, err
}

const messages = "/v1/conversations/c1/messages"

// send posts a message to conversation c1 and returns the id of its task.
func (a *api) send(key, body string) uuid.UUID {
	a.t.Helper()
	answer := a.do("POST", messages, body, "Idempotency-Key", key).want(a.t, http.StatusAccepted)
	id, err := uuid.Parse(answer.object(a.t)["id"].(string))
	if err != nil {
		a.t.Fatal(err)
	}
	return id
}

// claim takes the assignment of a task, as a worker would.
func (a *api) claim(id uuid.UUID) tasks.Assignment {
	a.t.Helper()
	claimed, err := a.store.Claim(a.t.Context(), tasks.Claimer{Worker: "worker-1", Lease: time.Minute, ParkMax: time.Minute, Provider: "sim"},
		[]tasks.Ref{{TaskID: id, Workspace: "w1"}})
	if err != nil || claimed[0].Decision != tasks.DecisionClaimed {
		a.t.Fatalf("claim: %+v, %v", claimed, err)
	}
	return claimed[0].Work.Assignment
}

// settle ends an assignment.
func (a *api) settle(by tasks.Assignment, s tasks.Settlement) {
	a.t.Helper()
	s.Assignment = by
	settled, err := a.store.Settle(a.t.Context(), []tasks.Settlement{s})
	if err != nil || settled[0].Verdict != tasks.VerdictAccepted {
		a.t.Fatalf("settle: %+v, %v", settled, err)
	}
}

// finish completes a task as a worker would.
func (a *api) finish(id uuid.UUID, text string) {
	a.t.Helper()
	a.complete(a.claim(id), text)
}

func (a *api) complete(by tasks.Assignment, text string) {
	a.t.Helper()
	in, out, cost := int64(12), int64(34), int64(123_000_000)
	a.settle(by, tasks.Settlement{
		Outcome:   tasks.OutcomeComplete,
		Candidate: tasks.Candidate{ReplyID: uuid.Must(uuid.NewV7()), Text: text, Model: "m-1", FinishReason: "stop"},
		Call:      tasks.Call{WireRequests: 1, ProviderRequestID: "req-1", Model: "m-1", InputTokens: &in, OutputTokens: &out, PicoUSD: &cost},
	})
}

// eventually polls for what another goroutine is about to do.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}
