package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// adversary knows every id, key and name of workspace w1, and has a key of w2.
type adversary struct {
	*api
	tasks []uuid.UUID // of w1: two finished ones, one that is waiting
	known []string    // what no answer to w2 may have in it
}

func newAdversary(t *testing.T) *adversary {
	a := &adversary{api: newPostgresAPI(t, nil)}
	first := a.send("k1", `{"content":"secret-content","system":"secret-system","document":{"id":"secret-document"},"metadata":{"who":"secret-metadata"}}`)
	a.finish(first, "secret-reply")
	completion := make(chan answer, 1)
	go func() {
		got, err := a.try(t.Context(), "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"secret-chat"}]}`, naturalHeader, "n1", keyHeader, "k2")
		if err != nil {
			t.Error(err)
		}
		completion <- got
	}()
	var chat uuid.UUID
	eventually(t, "the chat completion has a task", func() bool {
		newest := a.do("GET", "/v1/tasks?limit=1", "").object(t)["tasks"].([]any)[0].(map[string]any)
		chat = uuid.MustParse(newest["id"].(string))
		return chat != first
	})
	a.finish(chat, "secret-completion")
	(<-completion).want(t, http.StatusOK)
	again := a.do("POST", "/v1/tasks/"+first.String()+"/regenerate", "", keyHeader, "k3").want(t, http.StatusAccepted)
	a.tasks = []uuid.UUID{first, chat, uuid.MustParse(again.object(t)["id"].(string))}
	a.known = []string{"secret", "w1"}
	for _, id := range a.tasks {
		task := a.do("GET", "/v1/tasks/"+id.String(), "").want(t, http.StatusOK).object(t)
		a.known = append(a.known, id.String(), task["message_id"].(string))
	}
	return a
}

// guesses are what the adversary gives for a parameter of a query: w1's own, by name.
func (a *adversary) guesses(name string) []string {
	ids := make([]string, len(a.tasks))
	for i, id := range a.tasks {
		ids[i] = id.String()
	}
	guesses, ok := map[string][]string{
		"conversation": {"c1", "chat-" + ids[1]}, "document": {"secret-document"}, "status": {"completed", "queued"}, "after": append(ids, "0"),
		"limit": {"1"}, "wait": {"1ms"}, "last_event_id": {"running.1.1", "completed.1.0"}, "by": {"document", "model", "conversation", "day"},
		"from": {"2020-01-01"}, "to": {"2100-01-01"},
	}[name]
	if !ok {
		a.t.Errorf("nothing is known to ask for by the parameter %s", name)
	}
	return guesses
}

// requests are all that the adversary asks of an operation: paths with queries.
func (a *adversary) requests(path string, o operation) []string {
	var paths []string
	for _, id := range a.tasks {
		for _, conversation := range a.guesses("conversation") {
			paths = append(paths, strings.NewReplacer("{id}", id.String(), "{conversation}", conversation).Replace(path))
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	all := slices.Clone(paths)
	for _, p := range theDocument().parameters(o) {
		if p.In != "query" {
			continue
		}
		for _, guess := range a.guesses(p.Name) {
			for _, path := range paths {
				all = append(all, path+"?"+url.Values{p.Name: {guess}}.Encode())
			}
		}
	}
	return all
}

// bodies fit the operations that want one. The completion is asked for as w1 did.
var bodies = map[string]string{
	"sendMessage": `{"content":"mine","document":{"id":"mine"}}`, "regenerate": `{}`,
	"createChatCompletion": `{"messages":[{"role":"user","content":"secret-chat"}]}`,
}

// Whoever walks every operation of the document with another workspace's key learns nothing, by whatever they ask for, and
// changes nothing.
func TestI8_TheDocumentIsWalkedWithAnotherWorkspacesKey(t *testing.T) {
	a := newAdversary(t)
	a.server.Drain() // a chat completion of w2's own does not wait; what is finished is answered all the same
	before := a.own()
	walked := 0
	for _, path := range slices.Sorted(maps.Keys(theDocument().Paths)) {
		for method, o := range theDocument().Paths[path] {
			if len(o.Security) == 0 {
				continue // nobody's
			}
			walked++
			for _, request := range a.requests(path, o) {
				// w1's keys, bare and natural: in w2 they are free.
				for _, header := range [][2]string{{keyHeader, "k1"}, {keyHeader, "k2"}, {keyHeader, "k3"}, {naturalHeader, "n1"}} {
					if method == "get" && header[1] != "k1" {
						continue
					}
					a.ask(strings.ToUpper(method), request, o, header[0], header[1])
				}
			}
		}
	}
	if walked < 10 {
		t.Errorf("%d operations were walked", walked)
	}
	for path, was := range before {
		if now := a.do("GET", path, ""); now.told() != was {
			t.Errorf("%s has changed:\n%s\n%s", path, was, now.told())
		}
	}
}

// ask is one request under w2's key.
func (a *adversary) ask(method, path string, o operation, header, key string) {
	a.t.Helper()
	got := a.do(method, path, bodies[o.ID], "Authorization", "Bearer "+a.other, header, key)
	told := got.told()
	for _, word := range a.known {
		if strings.Contains(told, word) {
			a.t.Errorf("%s %s tells %q:\n%s", method, path, word, told)
		}
	}
	switch {
	case strings.Contains(path, "/v1/tasks/"):
		got.problem(a.t, http.StatusNotFound, "not_found")
	case o.ID == "createChatCompletion":
		got.want(a.t, http.StatusServiceUnavailable) // its task is new
	case method == "POST" && got.StatusCode != http.StatusAccepted && got.StatusCode != http.StatusUnprocessableEntity:
		a.t.Errorf("%s %s under w1's key %s: %s", method, path, key, told)
	case method == "GET" && got.StatusCode != http.StatusOK && got.StatusCode != http.StatusBadRequest:
		a.t.Errorf("%s %s: %s", method, path, told)
	}
}

// own is all that w1 can read of its own, by path.
func (a *adversary) own() map[string]string {
	a.t.Helper()
	all := map[string]string{}
	for path, methods := range theDocument().Paths {
		o, ok := methods["get"]
		if !ok || len(o.Security) == 0 {
			continue
		}
		for _, request := range a.requests(path, o) {
			if strings.Contains(request, "/events") && strings.Contains(request, a.tasks[2].String()) {
				continue // it goes on
			}
			got := a.do("GET", request, "")
			if got.StatusCode >= http.StatusInternalServerError {
				a.t.Errorf("%s: %s", request, got.told())
			}
			all[request] = got.told()
		}
	}
	if text := fmt.Sprint(all); !strings.Contains(text, "secret-reply") || !strings.Contains(text, "secret-completion") || !strings.Contains(text, "secret-metadata") {
		a.t.Errorf("w1 does not see its own: there is nothing to find")
	}
	return all
}
