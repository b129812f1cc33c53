package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
	"github.com/fencepost/fencepost/tasks/postgres"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

// told is all of an answer but what is new in each.
func (a answer) told() string {
	h := a.Header.Clone()
	h.Del("X-Request-Id")
	h.Del("Date")
	return fmt.Sprintf("%d\n%v\n%s", a.StatusCode, h, a.body)
}

// newKey makes a key of workspace w1 and returns its id and secret.
func (a *api) newKey(scopes ...tasks.Scope) (id uuid.UUID, secret string) {
	a.t.Helper()
	secret = tasks.NewKey()
	key, err := a.server.keys.keys.(keysAndTasks).CreateKey(a.t.Context(), "w1", "test", tasks.HashKey(secret), scopes...)
	if err != nil {
		a.t.Fatal(err)
	}
	return key.ID, secret
}

// fill puts words into the places of a route's path.
func fill(path, id string) string {
	return strings.NewReplacer("{id}", id, "{conversation}", "c1").Replace(path)
}

// An id of another workspace is answered as one that nobody has and as what is no id, byte by byte, on every route; and
// the store is asked the same, so that no answer takes longer for what is there.
func TestI8_NoRouteTellsWhatAnotherWorkspaceHas(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	a := newAPIOn(t, memory.New(memory.Config{Fault: func(method string, committed bool) error {
		mu.Lock()
		defer mu.Unlock()
		if !committed && method != "Progress" && method != "Finished" && method != "Live" && method != "TouchKeys" { // of the polls
			asked = append(asked, method)
		}
		return nil
	}}), nil)
	running, finished := a.send("k1", `{"content":"secret"}`), a.send("k2", `{"content":"secret"}`)
	a.finish(finished, "secret reply")
	walked := 0
	for _, route := range a.server.served {
		method, path, _ := strings.Cut(route, " ")
		if !strings.Contains(path, "{id}") {
			continue
		}
		walked++
		body := ""
		if method == http.MethodPost && !strings.HasSuffix(path, "/cancel") {
			body = "{}"
		}
		ask := func(id string) (told string, calls []string) {
			mu.Lock()
			asked = nil
			mu.Unlock()
			got := a.do(method, fill(path, id), body, "Authorization", "Bearer "+a.other, "Idempotency-Key", "k1")
			got.problem(t, http.StatusNotFound, "not_found")
			mu.Lock()
			defer mu.Unlock()
			return got.told(), slices.Clone(asked)
		}
		ask(uuid.NewString()) // the key is known from here on
		want, calls := ask(uuid.NewString())
		for _, id := range []uuid.UUID{running, finished} {
			if got, made := ask(id.String()); got != want || !slices.Equal(made, calls) {
				t.Errorf("%s: another workspace's task is told from none:\n%s asks for %v\n%s asks for %v", route, got, made, want, calls)
			}
		}
		for _, id := range []string{"x", "00000000-0000-0000-0000-000000000000", strings.ReplaceAll(running.String(), "-", ""), "%00", running.String() + "x"} {
			if got, _ := ask(id); got != want {
				t.Errorf("%s: %q is told from an id that nobody has:\n%s\n%s", route, id, got, want)
			}
		}
	}
	if walked < 4 {
		t.Errorf("%d routes were walked of %q", walked, a.server.served)
	}
	for _, id := range []uuid.UUID{running, finished} {
		if task, err := a.store.Task(t.Context(), "w1", id); err != nil || task.Status == tasks.StatusCancelled {
			t.Errorf("%s is %s, %v", id, task.Status, err)
		}
	}
	// What lists takes the names of others' things, and has nothing of them.
	for _, path := range []string{"/v1/conversations/c1/messages", "/v1/tasks", "/v1/tasks?conversation=c1", "/v1/tasks?status=completed"} {
		none := a.do("GET", strings.ReplaceAll(path, "c1", "nobodys"), "", "Authorization", "Bearer "+a.other).want(t, 200)
		if got := a.do("GET", path, "", "Authorization", "Bearer "+a.other); got.told() != none.told() || strings.Contains(string(got.body), "secret") {
			t.Errorf("%s: %s\nof nobody: %s", path, got.told(), none.told())
		}
	}
}

// Every route wants its scope, says which it misses before it looks at anything else, and says so of any id.
func TestEveryRouteWantsAScope(t *testing.T) {
	a := newAPI(t, nil)
	id := a.send("k1", `{"content":"hi"}`)
	secrets := map[tasks.Scope]string{}
	for _, scope := range tasks.Scopes {
		_, secrets[scope] = a.newKey(scope)
	}
	for _, route := range a.server.served {
		method, path, _ := strings.Cut(route, " ")
		if path == "/openapi.json" || path == "/docs" {
			continue // nobody's
		}
		refused := 0
		for scope, secret := range secrets {
			ask := func(id string) answer {
				return a.do(method, fill(path, id), "", "Authorization", "Bearer "+secret, "Idempotency-Key", "k")
			}
			if path == "/v1/tasks/{id}/events" && scope == tasks.ScopeRead {
				continue // it would wait
			}
			got := ask(uuid.NewString())
			if got.StatusCode != http.StatusForbidden {
				continue
			}
			refused++
			if !strings.Contains(string(got.body), "scope") || strings.Contains(string(got.body), string(scope)) {
				t.Errorf("%s with the scope %s: %s", route, scope, got.body)
			}
			if own := ask(id.String()); own.told() != got.told() {
				t.Errorf("%s tells without the scope:\n%s\n%s", route, own.told(), got.told())
			}
		}
		if refused != 2 && path != "/v1/models" {
			t.Errorf("%s refuses %d of the %d scopes, want all but one", route, refused, len(secrets))
		}
	}
	a.do("POST", messages, `{"content":"hi"}`, "Authorization", "Bearer "+secrets[tasks.ScopeSubmit], "Idempotency-Key", "k").want(t, 202)
	a.do("GET", "/v1/tasks/"+id.String(), "", "Authorization", "Bearer "+secrets[tasks.ScopeRead]).want(t, 200)
	p := a.do("POST", "/v1/tasks/"+id.String()+"/cancel", "", "Authorization", "Bearer "+secrets[tasks.ScopeRead]).problem(t, 403, "forbidden")
	if !strings.Contains(p["detail"].(string), `"submit"`) {
		t.Errorf("the scope is not named: %v", p)
	}
}

// A revoked key opens nothing within seconds, in every process, whatever it has been used for; and then it is answered as
// one that never was.
func TestARevokedKeyOpensNothingInAnyProcess(t *testing.T) {
	url := pgtest.URL(t)
	var processes [2]*api
	var store *postgres.Store
	for i := range processes {
		var err error
		if store, err = postgres.Open(t.Context(), postgres.Config{URL: url}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		processes[i] = newAPIOn(t, store, nil)
	}
	id, secret := processes[0].newKey()
	ask := func(a *api, secret string) answer {
		return a.do("GET", "/v1/tasks", "", "Authorization", "Bearer "+secret)
	}
	for _, a := range processes {
		ask(a, secret).want(t, 200)
	}
	if err := store.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, a := range processes {
		eventually(t, "the revoked key opens nothing", func() bool { return ask(a, secret).StatusCode == http.StatusUnauthorized })
		if got, none := ask(a, secret), ask(a, tasks.NewKey()); got.told() != none.told() {
			t.Errorf("a revoked key is told from none:\n%s\n%s", got.told(), none.told())
		}
	}
}

// toucher remembers which keys it was told of.
type toucher struct {
	counted
	mu   sync.Mutex
	err  error
	told [][]uuid.UUID
}

func (k *toucher) TouchKeys(_ context.Context, ids []uuid.UUID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return k.err
	}
	k.told = append(k.told, ids)
	return nil
}

// The keys that were used are told all at once, each once, again when the store did not hear it, and at the end.
func TestUsedKeysAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &toucher{err: tasks.ErrUnavailable}
		keys := newKeyCache(store, Limits{ReadTimeout: time.Second, MaxKeyLookups: 1}, discard)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); keys.touches.run(ctx) }()
		use := func() {
			if _, err := keys.authenticate(t.Context(), http.Header{"Authorization": {"Bearer fp_a"}}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(n int) {
			t.Helper()
			synctest.Wait()
			store.mu.Lock()
			defer store.mu.Unlock()
			if len(store.told) != n {
				t.Fatalf("told %v, want %d times", store.told, n)
			}
			for _, ids := range store.told {
				if !slices.Equal(ids, []uuid.UUID{{1}}) {
					t.Errorf("told %v", ids)
				}
			}
		}
		use()
		use()
		time.Sleep(touchEvery)
		want(0)
		store.mu.Lock()
		store.err = nil
		store.mu.Unlock()
		time.Sleep(touchEvery)
		want(1)
		time.Sleep(10 * touchEvery)
		want(1)
		use()
		stop()
		<-ended
		want(2)
	})
}

// The whole way: a key that was used has a time of last use once the server has ended.
func TestPostgresKnowsWhenAKeyWasUsed(t *testing.T) {
	store, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	var secret string
	t.Run("use", func(t *testing.T) {
		a := newAPIOn(t, store, nil)
		a.do("GET", "/v1/tasks", "").want(t, 200)
		secret = a.secret
	})
	key, err := store.KeyByHash(t.Context(), tasks.HashKey(secret))
	if err != nil || key.UsedAt.IsZero() {
		t.Errorf("used at %s, %v", key.UsedAt, err)
	}
}
