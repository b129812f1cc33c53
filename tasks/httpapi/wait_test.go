package httpapi

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

// wait asks in the background.
func (a *api) wait(id uuid.UUID, wait string) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		r, err := a.try(context.Background(), "GET", "/v1/tasks/"+id.String()+"?wait="+wait, "")
		if err != nil {
			a.t.Error(err)
			close(got)
			return
		}
		got <- r
	}()
	return got
}

func TestWaitIsAnsweredWhenTheTaskFinishes(t *testing.T) {
	a := newAPI(t, nil)
	done, open := a.send("k1", `{"content":"one"}`), a.send("k2", `{"content":"two"}`)
	var first []<-chan answer
	for range 10 {
		first = append(first, a.wait(done, "60"))
	}
	second := a.wait(open, "60s")
	eventually(t, "all wait", func() bool { return a.server.hub.waiting() == 11 })
	a.finish(done, "hello back")
	for _, c := range first {
		task := (<-c).want(t, http.StatusOK).object(t)
		if reply, _ := task["reply"].(map[string]any); task["status"] != "completed" || reply["text"] != "hello back" {
			t.Errorf("task %v", task)
		}
	}
	select {
	case r := <-second:
		t.Errorf("the wait for a task that goes on was answered: %s", r.body)
	default:
	}
	a.do("POST", "/v1/tasks/"+open.String()+"/cancel", "").want(t, http.StatusOK)
	if task := (<-second).want(t, http.StatusOK).object(t); task["status"] != "cancelled" {
		t.Errorf("task %v", task)
	}
	// Finished already: at once.
	if task := a.do("GET", "/v1/tasks/"+done.String()+"?wait=60s", "").want(t, 200).object(t); task["status"] != "completed" {
		t.Errorf("task %v", task)
	}
	if n := a.server.hub.waiting(); n != 0 {
		t.Errorf("%d still wait", n)
	}
}

func TestWaitEndsWithTheTaskAsItStands(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.Limits.MaxWait = 50 * time.Millisecond })
	id := a.send("k1", `{"content":"one"}`)
	for _, wait := range []string{"1ms", "0", "0s", "99999h", "9223372036854775807", "18446744073709551615"} { // the long ones are cut
		if task := a.do("GET", "/v1/tasks/"+id.String()+"?wait="+wait, "").want(t, 200).object(t); task["status"] != "queued" {
			t.Errorf("task %v", task)
		}
	}
	for _, wait := range []string{"", "soon", "-1", "-1s", "1s1", "1e3", "99999999999999999999", "NaN", "1s&wait=2s"} {
		p := a.do("GET", "/v1/tasks/"+id.String()+"?wait="+wait, "").problem(t, 400, "invalid_request")
		if p["field"] != "wait" {
			t.Errorf("wait=%s: field %v", wait, p["field"])
		}
	}
}

func TestWaitOutlastsTheTimeoutOfTheServer(t *testing.T) {
	store := memory.New(memory.Config{})
	id := newAPIOn(t, store, nil).send("k1", `{"content":"one"}`)
	defer func(d time.Duration) { writeTimeout = d }(writeTimeout)
	writeTimeout = 50 * time.Millisecond
	a := newAPIOn(t, store, nil)
	a.client.Transport.(*http.Transport).DisableKeepAlives = true // on a kept connection it would try again by itself
	began := time.Now()
	got := a.wait(id, "60s")
	eventually(t, "it waits", func() bool { return a.server.hub.waiting() == 1 })
	eventually(t, "the timeout has passed", func() bool { return time.Since(began) > 2*writeTimeout })
	a.finish(id, "x")
	if task := (<-got).want(t, 200).object(t); task["status"] != "completed" {
		t.Errorf("the wait ended early: %v", task)
	}
}

func TestDrainEndsWaits(t *testing.T) {
	a := newAPI(t, nil)
	id := a.send("k1", `{"content":"one"}`)
	got := a.wait(id, "60s")
	eventually(t, "it waits", func() bool { return a.server.hub.waiting() == 1 })
	a.server.Drain()
	if task := (<-got).want(t, 200).object(t); task["status"] != "queued" {
		t.Errorf("task %v", task)
	}
}

func TestGoneClientWaitsNoMore(t *testing.T) {
	a := newAPI(t, nil)
	id := a.send("k1", `{"content":"one"}`)
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := a.try(ctx, "GET", "/v1/tasks/"+id.String()+"?wait=60s", "")
		gone <- err
	}()
	eventually(t, "it waits", func() bool { return a.server.hub.waiting() == 1 })
	hangUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	eventually(t, "it waits no more", func() bool { return a.server.hub.waiting() == 0 && len(a.server.hub.ids()) == 0 })
}

func TestWaitersAreBounded(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.Limits.MaxWaiters = 2 })
	id := a.send("k1", `{"content":"one"}`)
	one, two := a.wait(id, "60s"), a.wait(id, "60s")
	eventually(t, "two wait", func() bool { return a.server.hub.waiting() == 2 })
	full := a.do("GET", "/v1/tasks/"+id.String()+"?wait=60s", "")
	full.problem(t, http.StatusServiceUnavailable, "overloaded")
	if full.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	a.do("GET", "/v1/tasks/"+id.String(), "").want(t, 200) // without wait it is answered
	a.finish(id, "x")
	(<-one).want(t, 200)
	(<-two).want(t, 200)
}

// polls counts them and answers as told.
type polls struct {
	tasks.Watched
	mu    sync.Mutex
	sizes []int
	err   error
}

func (f *polls) Progress(ctx context.Context, ids []uuid.UUID) ([]tasks.Progress, error) {
	f.mu.Lock()
	f.sizes = append(f.sizes, len(ids))
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return f.Watched.Progress(ctx, ids)
}

func TestAllWaitOnOnePoll(t *testing.T) {
	watched := &polls{}
	a := newAPI(t, func(c *Config) {
		watched.Watched = c.Watched
		c.Watched = watched
	})
	const n = 2500
	h := a.server.hub
	var watchers []*watcher
	for i := range n {
		w, p := h.register("w1", uuid.Must(uuid.NewV7()), i%2 == 0)
		if p != nil {
			t.Fatal(p)
		}
		watchers = append(watchers, w)
	}
	eventually(t, "all were asked for in one poll", func() bool {
		watched.mu.Lock()
		defer watched.mu.Unlock()
		for i := 0; i+2 < len(watched.sizes); i++ {
			if watched.sizes[i] == pollChunk && watched.sizes[i+1] == pollChunk && watched.sizes[i+2] == n-2*pollChunk {
				return true
			}
		}
		return false
	})
	for _, w := range watchers {
		w.leave()
	}
	if len(h.ids()) != 0 || h.waiting() != 0 || len(h.counts) != 0 {
		t.Errorf("%d ids, %d waiting, %d workspaces", len(h.ids()), h.waiting(), len(h.counts))
	}
}

func TestWaitOutlivesAStoreThatFails(t *testing.T) {
	watched := &polls{}
	a := newAPI(t, func(c *Config) {
		watched.Watched = c.Watched
		c.Watched = watched
	})
	id := a.send("k1", `{"content":"one"}`)
	got := a.wait(id, "60s")
	polled := func() int {
		watched.mu.Lock()
		defer watched.mu.Unlock()
		return len(watched.sizes)
	}
	eventually(t, "it is polled for", func() bool { return polled() > 1 })
	watched.mu.Lock()
	watched.err = tasks.ErrUnavailable
	before := len(watched.sizes)
	watched.mu.Unlock()
	eventually(t, "a poll has failed", func() bool { return polled() > before })
	a.finish(id, "x")
	watched.mu.Lock()
	watched.err = nil
	watched.mu.Unlock()
	a.server.Wake()
	if task := (<-got).want(t, 200).object(t); task["status"] != "completed" {
		t.Errorf("task %v", task)
	}
}
