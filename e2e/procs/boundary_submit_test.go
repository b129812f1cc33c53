package procs

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// The submission is committed and nobody has published anything when the process dies.
func TestBoundary_I3_CrashAfterSubmissionBeforePublish(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, quick...)
	api := w.Node("api", "api")
	run(t, api)
	client := &Client{Key: w.Key, Nodes: []*Node{api}}
	send(t, client, 4)
	kill(t, api)
	if n := w.published(t); n != 0 {
		t.Fatalf("%d records without a dispatcher", n)
	}
	watch := w.Watch()
	defer watch.Stop()
	rest := w.Node("rest", "api,dispatcher,worker")
	run(t, rest)
	w.settled(t, watch)
	w.wantStates(t, 4, "accepted")
	wantCalls(t, w.Model, 4, nil)
	if n := w.published(t); n != 4 {
		t.Errorf("%d records for 4 tasks", n)
	}
}

// The submission is committed, the acknowledgement of the commit never comes, and the client sends the message again.
func TestBoundary_I6_SubmissionAcknowledgementLost(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, quick...)
	api, rest := w.Proxied("api", "api"), w.Node("rest", "dispatcher,worker")
	run(t, api, rest)
	watch := w.Watch()
	defer watch.Stop()
	lost := rule(api.Postgres, "commit", proxy.LoseAnswer, 2)
	send(t, &Client{Key: w.Key, Nodes: []*Node{api}}, 4)
	if lost.Load() < 2 {
		t.Fatalf("%d commits were seen: no acknowledgement was lost", lost.Load())
	}
	w.settled(t, watch)
	w.wantStates(t, 4, "accepted")
	wantCalls(t, w.Model, 4, nil)
}

// Many senders, two processes, one key: one task.
func TestBoundary_I6_TwoSubmissionsAtOnceWithOneKey(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, quick...)
	first, second, rest := w.Node("api-1", "api"), w.Node("api-2", "api"), w.Node("rest", "dispatcher,worker")
	run(t, first, second, rest)
	watch := w.Watch()
	defer watch.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	const keys, senders = 20, 6
	var ids [keys][senders]string
	var sending sync.WaitGroup
	for k := range keys {
		for s := range senders {
			// One sender starts at the first process, the next at the second.
			client := &Client{Key: w.Key, Nodes: []*Node{first, second}}
			client.next.Store(int64(s))
			sending.Go(func() {
				task, err := client.Submit(ctx, fmt.Sprintf("c%03d", k), fmt.Sprintf("key-%d", k), content(k, 0))
				if err != nil {
					t.Error(err)
				}
				ids[k][s] = task.ID
			})
		}
	}
	sending.Wait()
	for k := range keys {
		for s := range senders {
			if ids[k][s] == "" || ids[k][s] != ids[k][0] {
				t.Errorf("key %d made the tasks %q", k, ids[k])
				break
			}
		}
	}
	w.settled(t, watch)
	w.wantStates(t, keys, "accepted")
	wantCalls(t, w.Model, keys, nil)
}

// The same key with other inputs is refused by every process, before and after the task's end, and changes nothing.
func TestBoundary_I6_SameKeyOtherInputs(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, quick...)
	first, second, rest := w.Node("api-1", "api"), w.Node("api-2", "api"), w.Node("rest", "dispatcher,worker")
	run(t, first, second, rest)
	client := &Client{Key: w.Key, Nodes: []*Node{first, second}}
	send(t, client, 1)
	refused := func() {
		t.Helper()
		for range 2 { // one at each process
			for conversation, message := range map[string]map[string]any{
				"c000":  {"content": "something else"},
				"other": {"content": content(0, 0)},
			} {
				status, body, err := client.Do(t.Context(), http.MethodPost, "/v1/conversations/"+conversation+"/messages", "key-0", message)
				if err != nil {
					t.Fatal(err)
				}
				if status != http.StatusUnprocessableEntity || fieldOf(t, string(body), "code") != "idempotency_key_reused" {
					t.Errorf("%v under a key that is taken: %d %s", message, status, body)
				}
			}
		}
	}
	refused()
	w.waitFinished(t)
	refused()
	kill(t, first)
	run(t, first)
	refused()
	w.wantStates(t, 1, "accepted")
	wantCalls(t, w.Model, 1, nil)
}

// The browser goes away in the middle of the request, and while it waits: the task ends all the same, once.
func TestBoundary_I3_BrowserGone(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, quick...)
	w.Model.Rules(`[{"latency": "500ms"}]`)
	node := w.Node("all", "api,dispatcher,worker")
	run(t, node)
	watch := w.Watch()
	defer watch.Stop()
	// Cut off right after the request, before its answer.
	body := fmt.Sprintf(`{"content":%q}`, content(0, 0))
	conn, err := net.Dial("tcp", strings.TrimPrefix(node.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /v1/conversations/c000/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: key-0\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", w.Key, len(body), body)
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
	// Whether that was accepted it cannot know, so it sends it again, and leaves while it waits for the reply.
	client := &Client{Key: w.Key, Nodes: []*Node{node}}
	send(t, client, 1)
	task, err := client.Submit(t.Context(), "c000", "key-0", content(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, _, err := client.Do(ctx, http.MethodGet, "/v1/tasks/"+task.ID+"?wait=30s", "", nil)
		left <- err
	}()
	waitCalls(t, w.Model, 1)
	cancel()
	if err := <-left; err == nil {
		t.Error("the wait was answered before the browser left: nothing is shown")
	}
	w.settled(t, watch)
	w.wantStates(t, 1, "accepted")
	wantCalls(t, w.Model, 1, nil)
}
