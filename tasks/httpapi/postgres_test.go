package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

func newPostgresAPI(t testing.TB, change func(*Config)) *api {
	t.Helper()
	store, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return newAPIOn(t, store, change)
}

func TestPostgresEndToEnd(t *testing.T) {
	a := newPostgresAPI(t, nil)
	const body = `{"content":"hi \u2028 \ud83d\ude00","document":{"id":"d1","version":"7"},"temperature":0.5,"metadata":{"a":"b"}}`
	first := a.do("POST", messages, body, "Idempotency-Key", "k1").want(t, http.StatusAccepted)
	location := first.Header.Get("Location")
	if read := a.do("GET", location, "").want(t, 200); string(read.body) != string(first.body) {
		t.Errorf("read   %s\nanswer %s", read.body, first.body)
	}
	again := a.do("POST", messages, body, "Idempotency-Key", `"k1"`).want(t, http.StatusAccepted)
	if string(again.body) != string(first.body) || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("again %v %s", again.Header, again.body)
	}
	a.do("POST", messages, `{"content":"other"}`, "Idempotency-Key", "k1").problem(t, 422, "idempotency_key_reused")
	a.do("GET", location, "", "Authorization", "Bearer "+a.other).problem(t, 404, "not_found")

	id := uuid.MustParse(first.object(t)["id"].(string))
	waiting := a.wait(id, "60s")
	eventually(t, "it waits", func() bool { return a.server.hub.waiting() == 1 })
	a.finish(id, "hello back")
	task := (<-waiting).want(t, 200).object(t)
	if task["status"] != "completed" || task["reply"].(map[string]any)["text"] != "hello back" || task["cost"].(map[string]any)["amount"] != "0.000123" {
		t.Errorf("task %v", task)
	}
	chat := a.do("GET", messages, "").want(t, 200).object(t)["messages"].([]any)
	if len(chat) != 1 || chat[0].(map[string]any)["content"] != "hi \u2028 😀" || len(chat[0].(map[string]any)["replies"].([]any)) != 1 {
		t.Errorf("chat %v", chat)
	}
	attempts := a.do("GET", location+"/attempts", "").want(t, 200).object(t)["attempts"].([]any)
	if len(attempts) != 1 || attempts[0].(map[string]any)["amount"] != "0.000123" {
		t.Errorf("attempts %v", attempts)
	}
	if cancelled := a.do("POST", location+"/cancel", "").want(t, 200).object(t); cancelled["changed"] != false {
		t.Errorf("cancel of a finished task: %v", cancelled)
	}
	if page := a.do("GET", "/v1/tasks?status=completed&conversation=c1", "").want(t, 200).object(t)["tasks"].([]any); len(page) != 1 {
		t.Errorf("page %v", page)
	}
}

func TestI6_PostgresConcurrentRequestsOfOneKey(t *testing.T) {
	concurrentRequestsOfOneKey(t, newPostgresAPI(t, nil))
}

func TestI6_PostgresChangedTemplatesDoNotRefuseTheRepeat(t *testing.T) {
	store, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	changedTemplates(t, store)
}

// A message that was sent after another's 202 stands after it, however the batches fall.
func TestPostgresKeepsTheOrderOfAConversation(t *testing.T) {
	a := newPostgresAPI(t, nil)
	const conversations, length = 16, 12
	var wg sync.WaitGroup
	for c := range conversations {
		wg.Go(func() {
			for m := range length {
				got, err := a.try(context.Background(), "POST", fmt.Sprintf("/v1/conversations/c%d/messages", c),
					fmt.Sprintf(`{"content":"%d"}`, m), "Idempotency-Key", fmt.Sprintf("%d-%d", c, m))
				if err != nil || got.StatusCode != http.StatusAccepted {
					t.Errorf("status %v, %v: %s", got.Response, err, got.body)
					return
				}
			}
		})
	}
	wg.Wait()
	for c := range conversations {
		chat := a.do("GET", fmt.Sprintf("/v1/conversations/c%d/messages", c), "").want(t, 200).object(t)["messages"].([]any)
		if len(chat) != length {
			t.Fatalf("conversation %d has %d messages, want %d", c, len(chat), length)
		}
		for m, got := range chat {
			if text := got.(map[string]any)["content"]; text != fmt.Sprint(m) {
				t.Fatalf("conversation %d: message %d is %v", c, m, text)
			}
		}
	}
}

// BenchmarkSubmitHTTP is new submissions through loopback HTTP into Postgres, 64 clients with kept connections, all of
// it (clients, server, Postgres) on this machine. For figures, name a server with fsync in FENCEPOST_TEST_POSTGRES_URL.
func BenchmarkSubmitHTTP(b *testing.B) {
	a := newPostgresAPI(b, nil)
	const clients = 64
	address := strings.TrimPrefix(a.url, "http://")
	body := `{"content":"` + strings.Repeat("How do I keep a promise? ", 24) + `"}` // 600 bytes
	var next atomic.Int64
	var batches batchCounter
	batches.Store = a.server.batcher.store
	a.server.batcher.store = &batches
	client := func() error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		defer conn.Close()
		r := bufio.NewReader(conn)
		for {
			n := next.Add(1)
			if n > int64(b.N) {
				return nil
			}
			// Written by hand: net/http's client would take as much of the machine as the server under test.
			if _, err := fmt.Fprintf(conn, "POST /v1/conversations/c%d/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
				"Idempotency-Key: key-%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", n%1000, a.secret, n, len(body), body); err != nil {
				return err
			}
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				return err
			}
			if resp.StatusCode != http.StatusAccepted {
				return fmt.Errorf("status %d", resp.StatusCode)
			}
			if _, err := r.Discard(int(resp.ContentLength)); err != nil {
				return err
			}
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	began := time.Now()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			if err := client(); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "submissions/s")
	b.ReportMetric(float64(b.N)/float64(batches.calls.Load()), "submissions/tx")
}

type batchCounter struct {
	tasks.Store
	calls atomic.Int64
}

func (c *batchCounter) Submit(ctx context.Context, items []tasks.Submission) ([]tasks.Submitted, error) {
	c.calls.Add(1)
	return c.Store.Submit(ctx, items)
}
