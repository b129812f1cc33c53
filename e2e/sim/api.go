package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/httpapi"
)

// workspaces of the run, each with a key.
var workspaces = []string{"acme", "globex"}

func secret(workspace string) string { return "fp_" + workspace }

// server is a process of the API. Its handlers are called without a network between.
type server struct {
	*proc
	handler http.Handler
	stop    context.CancelFunc
	done    chan struct{}
}

func (w *world) startAPI() *server {
	p := newProc(fmt.Sprintf("api-%d", w.number()), w.seed, w.net)
	l := &link{database: w.data, p: p, slow: w.plan.slow}
	for _, name := range workspaces {
		if _, err := w.data.Store.KeyByHash(context.Background(), tasks.HashKey(secret(name))); err == nil {
			continue
		}
		if _, err := w.data.Store.CreateKey(context.Background(), name, "sim", tasks.HashKey(secret(name))); err != nil {
			panic(err)
		}
	}
	s, err := httpapi.New(httpapi.Config{
		Store: l, Keys: l, Logger: w.logger(p.name),
		Defaults: httpapi.Defaults{Model: "sim", MaxAttempts: 4, MaxInterruptions: 6, Deadline: 15 * time.Minute, Retention: 24 * time.Hour},
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	srv := &server{proc: p, handler: s.Handler(), stop: cancel, done: make(chan struct{})}
	w.all.Go(func() {
		defer close(srv.done)
		_ = s.Run(ctx)
	})
	return srv
}

func (s *server) close() {
	s.stop()
	<-s.done
}

// view is what of an answer a client looks at.
type view struct {
	ID      string `json:"id"`
	Status  any    `json:"status"` // a word of a task, a number of a problem
	Version int64  `json:"assignment_version"`
	Code    string `json:"code"`
	TaskID  string `json:"task_id"`
	Reply   *struct {
		ID string `json:"id"`
	} `json:"reply"`
}

// status is that of the task in the answer.
func (v view) status() string {
	s, _ := v.Status.(string)
	return s
}

// call is one request. A status of 0: no answer came.
func (w *world) call(ctx context.Context, workspace, method, path, key, body string) (int, view) {
	w.mu.Lock()
	s := w.api
	w.mu.Unlock()
	r := httptest.NewRequestWithContext(ctx, method, "http://api"+path, io.NopCloser(strings.NewReader(body)))
	r.Header.Set("Authorization", "Bearer "+secret(workspace))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	if s.isDead() {
		return 0, view{}
	}
	answer := httptest.NewRecorder()
	s.handler.ServeHTTP(answer, r)
	if s.isDead() || ctx.Err() != nil {
		return 0, view{}
	}
	var v view
	if err := json.Unmarshal(answer.Body.Bytes(), &v); err != nil {
		w.rec.count("unreadable answer")
	}
	return answer.Code, v
}
