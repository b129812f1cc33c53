package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

// gated is a store whose Submit says that it was called and waits to be told how to go on.
type gated struct {
	tasks.Store
	calls chan gatedCall
}

type gatedCall struct {
	items []tasks.Submission
	// goOn gets the error of the call, before anything is stored; nil for none.
	goOn chan error
	// lost gets the error of a call that has stored everything.
	lost chan error
}

func (g *gated) Submit(ctx context.Context, items []tasks.Submission) ([]tasks.Submitted, error) {
	c := gatedCall{items: items, goOn: make(chan error), lost: make(chan error)}
	select {
	case g.calls <- c:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case err := <-c.goOn:
		if err != nil {
			return nil, err
		}
		return g.Store.Submit(ctx, items)
	case err := <-c.lost:
		if _, err := g.Store.Submit(ctx, items); err != nil {
			return nil, err
		}
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newGated(t *testing.T, change func(*Config)) (*api, *gated) {
	g := &gated{calls: make(chan gatedCall)}
	a := newAPI(t, func(c *Config) {
		g.Store = c.Store
		c.Store = g
		if change != nil {
			change(c)
		}
	})
	return a, g
}

func (g *gated) next(t *testing.T) gatedCall {
	t.Helper()
	select {
	case c := <-g.calls:
		return c
	case <-time.After(patience):
		t.Fatal("the store was not called")
		return gatedCall{}
	}
}

// post sends in the background.
func (a *api) post(key string) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		r, err := a.try(context.Background(), "POST", messages, `{"content":"hi"}`, "Idempotency-Key", key)
		if err != nil {
			a.t.Error(err)
			close(got)
			return
		}
		got <- r
	}()
	return got
}

func TestSubmissionsThatMeetShareATransaction(t *testing.T) {
	const n = 50
	a, g := newGated(t, func(c *Config) { c.Committers = 1; c.GroupDelay = time.Hour })
	first := a.post("first")
	alone := g.next(t) // nothing was in flight: it did not wait for the hour
	if len(alone.items) != 1 {
		t.Fatalf("%d submissions in the first transaction, want 1", len(alone.items))
	}
	var rest []<-chan answer
	for i := range n {
		rest = append(rest, a.post(fmt.Sprint(i)))
	}
	eventually(t, "all have arrived", func() bool { return a.server.bytes.Load() == int64((n+1)*len(`{"content":"hi"}`)) })
	alone.goOn <- nil
	if got := <-first; got.StatusCode != http.StatusAccepted {
		t.Fatalf("status %d", got.StatusCode)
	}
	// With nothing in flight any more the batch goes, with what had come by then; a few may still be on their way.
	calls, items := 0, 0
	for ; items < n; calls++ {
		c := g.next(t)
		items += len(c.items)
		c.goOn <- nil
	}
	if calls > n/5 {
		t.Errorf("%d transactions for %d submissions that met", calls, n)
	}
	for _, r := range rest {
		if got := <-r; got.StatusCode != http.StatusAccepted {
			t.Errorf("status %d: %s", got.StatusCode, got.body)
		}
	}
}

func TestBatchesAreBounded(t *testing.T) {
	const n, most = 20, 4
	a, g := newGated(t, func(c *Config) { c.Committers = 1; c.MaxBatch = most })
	answers := []<-chan answer{a.post("first")}
	first := g.next(t)
	for i := range n {
		answers = append(answers, a.post(fmt.Sprint(i)))
	}
	eventually(t, "all have arrived", func() bool { return a.server.bytes.Load() == int64((n+1)*len(`{"content":"hi"}`)) })
	first.goOn <- nil
	for items := 0; items < n; {
		c := g.next(t)
		if len(c.items) > most {
			t.Errorf("%d submissions in a transaction, want at most %d", len(c.items), most)
		}
		items += len(c.items)
		c.goOn <- nil
	}
	for _, r := range answers {
		(<-r).want(t, http.StatusAccepted)
	}
}

func TestFullQueueIsOverloaded(t *testing.T) {
	a, g := newGated(t, func(c *Config) { c.Committers = 1; c.MaxBatch = 1; c.Limits.MaxQueue = 1 })
	first := a.post("1")
	call := g.next(t) // 1 is in flight
	second := a.post("2")
	eventually(t, "2 is waiting for the committer", func() bool { return a.server.batcher.inFlight.Load() == 2 })
	third := a.post("3")
	eventually(t, "3 is queued", func() bool { return len(a.server.batcher.queue) == 1 })
	full := a.do("POST", messages, `{"content":"hi"}`, "Idempotency-Key", "4")
	p := full.problem(t, http.StatusServiceUnavailable, "overloaded")
	if full.Header.Get("Retry-After") == "" || !strings.Contains(p["detail"].(string), "nothing was stored") {
		t.Errorf("headers %v, body %s", full.Header, full.body)
	}
	call.goOn <- nil
	for range 2 {
		g.next(t).goOn <- nil
	}
	for _, r := range []<-chan answer{first, second, third} {
		(<-r).want(t, http.StatusAccepted)
	}
}

func TestI3_GoneClientDoesNotCancelTheTransaction(t *testing.T) {
	a, g := newGated(t, nil)
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := a.try(ctx, "POST", messages, `{"content":"hi"}`, "Idempotency-Key", "gone")
		gone <- err
	}()
	call := g.next(t)
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	call.goOn <- nil
	eventually(t, "the message is stored", func() bool {
		page, err := a.store.Tasks(t.Context(), tasks.Filter{Workspace: "w1"})
		return err == nil && len(page) == 1
	})
}

func TestI3_UnavailableStoreIsTriedAgain(t *testing.T) {
	a, g := newGated(t, nil)
	got := a.post("k")
	down := fmt.Errorf("%w: connection refused", tasks.ErrUnavailable)
	first := g.next(t)
	first.goOn <- down
	second := g.next(t)
	if first.items[0].TaskID != second.items[0].TaskID {
		t.Error("the repeat has another id: after a lost acknowledgement it would be a second message")
	}
	second.lost <- down // committed, and nobody knows
	g.next(t).goOn <- nil
	r := (<-got).want(t, http.StatusAccepted)
	if r.object(t)["id"] != first.items[0].TaskID.String() || r.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf("the request's own submission is called a replay: %v", r.Header)
	}
	page, err := a.store.Tasks(t.Context(), tasks.Filter{Workspace: "w1"})
	if err != nil || len(page) != 1 {
		t.Errorf("%d tasks, %v; want 1", len(page), err)
	}
}

// down answers nothing, or fails for another reason.
type down struct {
	tasks.Store
	err error
}

func (d down) Submit(context.Context, []tasks.Submission) ([]tasks.Submitted, error) {
	return nil, d.err
}

func TestI3_UnknownOutcomeIsNotCalledARefusal(t *testing.T) {
	for _, test := range []struct {
		name   string
		err    error
		status int
		code   string
	}{
		{"store down", fmt.Errorf("%w: connection refused", tasks.ErrUnavailable), http.StatusServiceUnavailable, "overloaded"},
		{"other error", errors.New("out of cheese"), http.StatusInternalServerError, "internal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t, func(c *Config) {
				c.Store = down{c.Store, test.err}
				c.Limits.SubmitTimeout = 50 * time.Millisecond
			})
			got := a.do("POST", messages, `{"content":"hi"}`, "Idempotency-Key", "k")
			p := got.problem(t, test.status, test.code)
			if detail := p["detail"].(string); !strings.Contains(detail, "may or may not") || !strings.Contains(detail, "same key") {
				t.Errorf("detail %q", detail)
			}
			if test.status == http.StatusServiceUnavailable && got.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			if strings.Contains(string(got.body), test.err.Error()) {
				t.Errorf("the cause is shown to the caller: %s", got.body)
			}
		})
	}
}

// each gives every item its own outcome.
type each struct {
	tasks.Store
	errs func(key string) error
}

func (e each) Submit(ctx context.Context, items []tasks.Submission) ([]tasks.Submitted, error) {
	out := make([]tasks.Submitted, len(items))
	for i, item := range items {
		if err := e.errs(item.Key); err != nil {
			out[i].Err = err
			continue
		}
		one, err := e.Store.Submit(ctx, items[i:i+1])
		if err != nil {
			return nil, err
		}
		out[i] = one[0]
	}
	return out, nil
}

func TestOutcomesOfItems(t *testing.T) {
	var mu sync.Mutex
	flaky := 2
	a := newAPI(t, func(c *Config) {
		c.Store = each{c.Store, func(key string) error {
			switch key {
			case "busy":
				return tasks.ErrInProgress
			case "poison":
				return fmt.Errorf("%w: row 1", tasks.ErrInvalid)
			case "flaky":
				mu.Lock()
				defer mu.Unlock()
				if flaky--; flaky >= 0 {
					return tasks.ErrUnavailable
				}
			}
			return nil
		}}
	})
	post := func(key string) answer { return a.do("POST", messages, `{"content":"hi"}`, "Idempotency-Key", key) }
	busy := post("busy")
	busy.problem(t, http.StatusConflict, "idempotency_in_progress")
	if busy.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", busy.Header.Get("Retry-After"))
	}
	post("poison").problem(t, http.StatusBadRequest, "invalid_request")
	post("flaky").want(t, http.StatusAccepted)
}

func TestRequestBytesAreBounded(t *testing.T) {
	const body = `{"content":"hi"}`
	a, g := newGated(t, func(c *Config) { c.Limits.MaxBytes = int64(len(body)) + 1 })
	first := a.post("1")
	call := g.next(t)
	a.do("POST", messages, body, "Idempotency-Key", "2").problem(t, http.StatusServiceUnavailable, "overloaded")
	call.goOn <- nil
	(<-first).want(t, http.StatusAccepted)
	eventually(t, "the bytes are given back", func() bool { return a.server.bytes.Load() == 0 })
}

func TestStoppedServerRefuses(t *testing.T) {
	m, err := newMetrics(nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := &gated{calls: make(chan gatedCall)}
	c, err := Config{Store: store, Watched: memory.New(memory.Config{}), Keys: noKeys{}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	b := newBatcher(c, m)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { b.run(ctx); close(ended) }()
	queued := make(chan error, 1)
	go func() {
		_, err := b.submit(tasks.Submission{Key: "1"})
		queued <- err
	}()
	call := store.next(t)
	stop()
	eventually(t, "it takes no more", func() bool { return b.closing.Load() })
	if _, err := b.submit(tasks.Submission{Key: "2"}); !errors.Is(err, errStopped) {
		t.Errorf("submit on a stopping batcher: %v", err)
	}
	call.goOn <- errors.New("told")
	if err := <-queued; err == nil || err.Error() != "told" {
		t.Errorf("what was in flight: %v", err)
	}
	<-ended
}

type noKeys struct{}

func (noKeys) KeyByHash(context.Context, [32]byte) (tasks.Key, error) {
	return tasks.Key{}, tasks.ErrNotFound
}
