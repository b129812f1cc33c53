package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// events asks for all events of a task that ends by itself.
func (a *api) events(id uuid.UUID, headers ...string) []sse {
	a.t.Helper()
	got := a.do("GET", "/v1/tasks/"+id.String()+"/events", "", headers...).want(a.t, http.StatusOK)
	h := got.Header
	if h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-store" || h.Get("X-Accel-Buffering") != "no" || h.Get("X-Request-Id") == "" {
		a.t.Errorf("headers %v", h)
	}
	all, err := allSSE(bytes.NewReader(got.body))
	if err != nil {
		a.t.Fatal(err)
	}
	return all
}

func TestEventsTellWhatHappensToATask(t *testing.T) {
	toldInEvents(t, newAPI(t, nil))
}

func TestPostgresEventsTellWhatHappensToATask(t *testing.T) {
	toldInEvents(t, newPostgresAPI(t, nil))
}

func toldInEvents(t *testing.T, a *api) {
	live := a.store.(tasks.LiveTexts)
	id := a.send("k1", `{"content":"hi"}`)
	r, err := http.NewRequestWithContext(t.Context(), "GET", a.url+"/v1/tasks/"+id.String()+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.secret)
	resp, err := a.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	var got []sse
	// next reads one event, and wants it to be that one.
	next := func(id, name, data string) {
		t.Helper()
		e, err := readSSE(in)
		if err != nil || e.id != id || e.name != name || data != "" && e.data != data {
			t.Fatalf("got %+v, %v; want %s %s %s", e, err, id, name, data)
		}
		got = append(got, e)
	}
	if e, err := readSSE(in); err != nil || e.retry != "1000" {
		t.Fatalf("got %+v, %v", e, err)
	}
	if e, err := readSSE(in); err != nil || e.comment == "" {
		t.Fatalf("got %+v, %v", e, err)
	}
	status := func(status string, attempts, version int) string {
		return fmt.Sprintf(`{"id":"%s","status":"%s","attempts":%d,"assignment_version":%d}`, id, status, attempts, version)
	}
	publish := func(p tasks.LivePiece) {
		t.Helper()
		p.TaskID = id
		if err := live.Publish(t.Context(), []tasks.LivePiece{p}); err != nil {
			t.Fatal(err)
		}
	}
	next("queued.0.0", "status", status("queued", 0, 0))
	first := a.claim(id)
	next("running.1.0", "status", status("running", 1, 1))
	publish(tasks.LivePiece{Version: 1, Attempt: 1, Index: 0, Tokens: 2, Text: "Hel\nlo <"})
	next("running.1.2", "token", `{"attempt":1,"index":0,"text":"Hel\nlo <"}`)
	a.settle(first, tasks.Settlement{Outcome: tasks.OutcomeRetry, Failure: tasks.Failure{Class: "overloaded"}})
	next("queued.1.2", "status", status("queued", 1, 1))
	second := a.claim(id)
	next("none.2.0", "reset", `{"attempt":2}`)
	next("running.2.0", "status", status("running", 2, 2))
	publish(tasks.LivePiece{Version: 1, Attempt: 1, Index: 2, Tokens: 1, Text: "late"})
	publish(tasks.LivePiece{Version: 2, Attempt: 2, Index: 0, Tokens: 1, Text: "Good"})
	next("running.2.1", "token", `{"attempt":2,"index":0,"text":"Good"}`)
	a.complete(second, "Good day")
	next("completed.2.1", "reply", "")
	if e, err := readSSE(in); err != io.EOF {
		t.Errorf("after the reply came %+v, %v", e, err)
	}
	var task map[string]any
	if err := json.Unmarshal([]byte(got[len(got)-1].data), &task); err != nil || task["reply"].(map[string]any)["text"] != "Good day" || task["status"] != "completed" {
		t.Errorf("reply %v, %v", task, err)
	}
	if read := a.do("GET", "/v1/tasks/"+id.String(), ""); strings.TrimSpace(string(read.body)) != got[len(got)-1].data {
		t.Errorf("reply %s\ntask  %s", got[len(got)-1].data, read.body)
	}

	// A task that has ended tells the end; one who has had it gets nothing, which is what ends an EventSource.
	if all := a.events(id); len(all) != 3 || all[2].name != "reply" {
		t.Errorf("events %+v", all)
	}
	path := "/v1/tasks/" + id.String() + "/events"
	for _, had := range []answer{
		a.do("GET", path, "", "Last-Event-ID", "completed.2.1"), a.do("GET", path+"?last_event_id=completed.2.1", ""),
		a.do("GET", path+"?last_event_id=running.1.2", "", "Last-Event-ID", "completed.2.1"), a.do("HEAD", path, "", "Last-Event-ID", "completed.2.1"),
	} {
		if had.want(t, http.StatusNoContent); len(had.body) > 0 {
			t.Errorf("body %q", had.body)
		}
	}
	// The tokens of the first attempt are void, those of the second are not.
	for from, want := range map[string]string{"running.1.2": "reset reply", "running.2.1": "reply", "running.1.0": "reply", "failed.2.1": "reset reply"} {
		var names []string
		for _, e := range a.events(id, "Last-Event-ID", from)[2:] {
			names = append(names, e.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("after %s: %s, want %s", from, got, want)
		}
	}
	head := a.do("HEAD", path, "").want(t, 200)
	if head.Header.Get("Content-Type") != "text/event-stream" || len(head.body) > 0 {
		t.Errorf("HEAD %v %q", head.Header, head.body)
	}
	eventually(t, "nobody waits", func() bool { return a.server.hub.waiting() == 0 && len(a.server.hub.ids()) == 0 })
}

func TestEventsOfWhatDidNotWork(t *testing.T) {
	a := newAPI(t, nil)
	failed, cancelled := a.send("k1", `{"content":"one"}`), a.send("k2", `{"content":"two"}`)
	a.fail(failed)
	a.do("POST", "/v1/tasks/"+cancelled.String()+"/cancel", "").want(t, 200)
	for id, status := range map[uuid.UUID]string{failed: "failed", cancelled: "cancelled"} {
		all := a.events(id)
		last := all[len(all)-1]
		if len(all) != 3 || last.name != "error" || !strings.Contains(last.data, `"status":"`+status+`"`) || !strings.HasPrefix(last.id, status+".") {
			t.Errorf("events %+v", all)
		}
	}
}

func TestEventsAreRefused(t *testing.T) {
	a := newAPI(t, nil)
	id := a.send("k1", `{"content":"one"}`)
	path := "/v1/tasks/" + id.String() + "/events"
	unknown := a.do("GET", "/v1/tasks/"+uuid.NewString()+"/events", "")
	unknown.problem(t, 404, "not_found")
	for _, from := range []string{"", "running.1.1", "completed.1.0"} {
		for _, got := range []answer{
			a.do("GET", path, "", "Authorization", "Bearer "+a.other, "Last-Event-ID", from),
			a.do("GET", "/v1/tasks/x/events", "", "Last-Event-ID", from),
		} {
			if got.StatusCode != 404 || string(got.body) != string(unknown.body) {
				t.Errorf("after %q: %d %s, want %s", from, got.StatusCode, got.body, unknown.body)
			}
		}
	}
	a.do("HEAD", path, "", "Authorization", "Bearer "+a.other).want(t, 404)
	for _, bad := range []string{"x", "running.1", "running.1.-1", "running.1.99999999999"} {
		if p := a.do("GET", path, "", "Last-Event-ID", bad).problem(t, 400, "invalid_request"); p["field"] != "Last-Event-ID" {
			t.Errorf("problem %v", p)
		}
		if p := a.do("GET", path+"?last_event_id="+bad, "").problem(t, 400, "invalid_request"); p["field"] != "last_event_id" {
			t.Errorf("problem %v", p)
		}
	}
	// A newer one does not excuse it.
	a.do("GET", path+"?last_event_id=x", "", "Last-Event-ID", "running.1.1").problem(t, 400, "invalid_request")
	a.do("GET", path+"?wait=1s", "").problem(t, 400, "invalid_request")
	if got := a.do("POST", path, "{}"); got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow %q", got.Header.Get("Allow"))
	}
	a.do("GET", path, "", "Authorization", "").problem(t, 401, "unauthorized")
	a.do("HEAD", path, "").want(t, 200)
	if n := a.server.hub.waiting(); n != 0 {
		t.Errorf("%d wait for a body that HEAD has not", n)
	}
}

func TestWatchersAreBoundedForEachWorkspace(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.Limits.MaxWaiters, c.Limits.MaxWaitersPerWorkspace = 3, 2 })
	id := a.send("k1", `{"content":"one"}`)
	one, two := a.wait(id, "60s"), a.wait(id, "60s")
	eventually(t, "two wait", func() bool { return a.server.hub.waiting() == 2 })
	for _, path := range []string{"/events", "?wait=60s"} {
		if full := a.do("GET", "/v1/tasks/"+id.String()+path, ""); full.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		} else {
			full.problem(t, http.StatusTooManyRequests, "rate_limited")
		}
	}
	// Another workspace has its place.
	other := a.do("POST", messages, `{"content":"two"}`, "Idempotency-Key", "k", "Authorization", "Bearer "+a.other).want(t, 202).object(t)["id"].(string)
	a.do("POST", "/v1/tasks/"+other+"/cancel", "", "Authorization", "Bearer "+a.other).want(t, 200)
	a.do("GET", "/v1/tasks/"+other+"/events", "", "Authorization", "Bearer "+a.other).want(t, 200)
	a.finish(id, "x")
	(<-one).want(t, 200)
	(<-two).want(t, 200)
}

func TestEventsHeartbeatAndDrain(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(nil)
		resp := b.open(b.dial(s), b.submit())
		got := make(chan []sse)
		go func() {
			all, err := allSSE(resp.Body)
			if err != nil {
				t.Error(err)
			}
			got <- all
		}()
		time.Sleep(10 * time.Minute) // longer than every timeout of the server
		s.Drain()
		all := <-got
		beats := 0
		for _, e := range all[3 : len(all)-2] {
			if e != (sse{comment: "."}) {
				t.Errorf("event %+v", e)
			}
			beats++
		}
		if want := int(10 * time.Minute / heartbeat); beats != want && beats != want-1 {
			t.Errorf("%d heartbeats, want %d", beats, want)
		}
		if all[2].name != "status" || all[len(all)-2].retry == "" || !strings.Contains(all[len(all)-1].comment, "connect again") {
			t.Errorf("events %+v", all)
		}
	})
}

func TestEventsDropASlowReader(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(nil)
		conn := b.dial(s)
		b.open(conn, b.submit())
		b.settle() // nobody reads: the pipe holds nothing
		if s.hub.waiting() != 1 {
			t.Fatal("it does not wait")
		}
		time.Sleep(writeTime)
		b.settle()
		if n := s.hub.waiting(); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}

func TestEventsEndWithTheirKey(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(nil)
		id := b.submit()
		resp := b.open(b.dial(s), id)
		key, err := b.store.KeyByHash(b.ctx, tasks.HashKey(b.api.secret))
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan []sse)
		go func() {
			all, err := allSSE(resp.Body)
			if err != nil {
				t.Error(err)
			}
			got <- all
		}()
		b.settle()
		if err := b.store.RevokeKey(b.ctx, key.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*heartbeat + knownFor)
		b.api.finish(id, "secret")
		all := <-got
		if last := all[len(all)-1]; !strings.Contains(last.comment, "revoked") || strings.Contains(fmt.Sprint(all), "secret") {
			t.Errorf("events %+v", all)
		}
	})
}

func TestGoneReaderIsWatchedForNoMore(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(nil)
		conn := b.dial(s)
		resp := b.open(conn, b.submit())
		if _, err := readSSE(bufio.NewReader(resp.Body)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		b.settle()
		if n := s.hub.waiting(); n != 0 || len(s.hub.ids()) != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}
