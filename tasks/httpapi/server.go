package httpapi

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/fencepost/fencepost/tasks"
)

// Server is the submission API. Make it with New, serve Handler, and keep Run running beside it.
type Server struct {
	store     tasks.Store
	bindings  Bindings
	defaults  Defaults
	limits    Limits
	templates *Templates
	spending  tasks.Spending
	reserve   func(tasks.Request) *int64
	keys      *keyCache
	batcher   *batcher
	hub       *hub
	looks     *looks
	heartbeat time.Duration      // of streams
	reading   singleflight.Group // of tasks that have ended
	reads     chan struct{}      // a slot for each of these reads at once
	shed      shed
	quota     *quota
	rates     *rates
	metrics   *metrics
	errors    errorLog
	handler   http.Handler
	tracer    tasks.Tracer // nil: off
	keyless   bool         // of chat completions
	bytes     atomic.Int64 // of request bodies in hand
	served    []string     // "METHOD /path" of each route, which is what openapi.json describes
}

// New makes a Server. It starts nothing.
func New(c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		spending: c.Spending, store: c.Store, bindings: c.Bindings, defaults: c.Defaults, limits: c.Limits, templates: c.Templates, reserve: c.Reserve, keyless: c.KeyOptional,
		keys:   newKeyCache(c.Keys, c.Limits, c.Logger),
		hub:    newHub(c),
		shed:   shed{backlog: c.Backlog, max: c.Limits.MaxUnfinished, errors: errorLog{log: c.Logger}},
		rates:  newRates(c.Limits.WorkspaceSubmissionsPerMinute),
		errors: errorLog{log: c.Logger},
		tracer: c.Tracer,

		heartbeat: heartbeat,
		reads:     make(chan struct{}, maxReads),
	}
	s.looks = newLooks(s.hub)
	workspaces, _ := c.Backlog.(WorkspaceBacklog)
	s.quota = newQuota(workspaces, c.Limits.WorkspaceMaxUnfinished, c.Logger)
	s.metrics, err = newMetrics(c.Registerer,
		func() float64 { return float64(s.hub.waiting()) },
		func() float64 { return float64(s.hub.queries.Load()) },
		func() float64 { return float64(len(s.batcher.queue)) })
	if err != nil {
		return nil, err
	}
	s.batcher = newBatcher(c, s.metrics)
	s.handler = s.routes()
	return s, nil
}

// Handler serves the API's routes; every other path is a problem 404.
func (s *Server) Handler() http.Handler { return s.handler }

// Run stores what the handlers are given and polls for those who wait, until ctx is done. What is queued by then is still
// stored, for at most Limits.SubmitTimeout. Stop the http.Server first, or its handlers are refused.
func (s *Server) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { s.hub.run(ctx) })
	wg.Go(func() { s.looks.run(ctx) })
	wg.Go(func() { s.shed.run(ctx) })
	wg.Go(func() { s.keys.touches.run(ctx) })
	s.batcher.run(ctx)
	s.hub.drain() // a poll will not come any more
	wg.Wait()
	return nil
}

// Wake says that tasks may have finished, so that those who wait learn of it before the next poll. It never blocks.
func (s *Server) Wake() { s.hub.wake() }

// Drain lets every wait end now, with the task as it stands, so that http.Server.Shutdown need not outlast MaxWait: give
// it to http.Server.RegisterOnShutdown. Nothing waits afterwards.
func (s *Server) Drain() { s.hub.drain() }

// call is one authenticated request.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	workspace string
	span      tasks.Span // nil: none
}

// routes are what the API answers. A path that is known with another method is 405, all else 404.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	allow := map[string][]string{} // by path
	for _, route := range []struct {
		method, path string
		scope        tasks.Scope // what the key must be good for
		handle       func(*call) (int, error)
	}{
		{"POST", "/v1/conversations/{conversation}/messages", tasks.ScopeSubmit, s.postMessage},
		{"GET", "/v1/conversations/{conversation}/messages", tasks.ScopeRead, s.getConversation},
		{"GET", "/v1/tasks", tasks.ScopeRead, s.listTasks},
		{"GET", "/v1/tasks/{id}", tasks.ScopeRead, s.getTask},
		{"GET", "/v1/tasks/{id}/attempts", tasks.ScopeRead, s.getAttempts},
		{"GET", "/v1/tasks/{id}/events", tasks.ScopeRead, s.getEvents},
		{"POST", "/v1/tasks/{id}/cancel", tasks.ScopeSubmit, s.cancelTask},
		{"POST", "/v1/tasks/{id}/regenerate", tasks.ScopeSubmit, s.regenerateTask},
		{"POST", "/v1/chat/completions", tasks.ScopeSubmit, s.postChat},
		{"GET", "/v1/models", tasks.ScopeRead, s.getModels},
		{"GET", "/v1/spend", tasks.ScopeRead, s.getSpend},
	} {
		s.served = append(s.served, route.method+" "+route.path)
		allow[route.path] = append(allow[route.path], route.method)
		if route.method == http.MethodGet {
			allow[route.path] = append(allow[route.path], http.MethodHead)
		}
		mux.Handle(route.method+" "+route.path, s.route(route.method+" "+route.path, func(c *call) (int, error) {
			key, err := s.keys.authenticate(c.r.Context(), c.r.Header)
			if err == nil {
				err = permit(key, route.scope)
			}
			if err != nil {
				return 0, err
			}
			c.workspace = key.Workspace
			return route.handle(c)
		}))
	}
	for p, handle := range map[string]func(*call) (int, error){"/openapi.json": getOpenAPI, "/docs": getDocs} {
		s.served = append(s.served, "GET "+p)
		allow[p] = []string{http.MethodGet, http.MethodHead}
		mux.Handle("GET "+p, s.route("GET "+p, handle))
	}
	for p, methods := range allow {
		slices.Sort(methods)
		mux.Handle(p, s.route("other", func(*call) (int, error) { return 0, methodNotAllowed(strings.Join(methods, ", ")) }))
	}
	unknown := s.route("other", func(*call) (int, error) { return 0, noRoute() })
	mux.Handle("/", unknown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// ServeMux redirects an unclean path, by a 301 that turns POST into GET.
		if p := r.URL.EscapedPath(); path.Clean(p) != p {
			unknown.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// route is what all routes share: the request's id, its metrics, and the one place where an error becomes a problem.
// handle returns the status it wrote, or an error and has written nothing.
func (s *Server) route(name string, handle func(*call) (int, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		id := requestID(r.Header)
		w.Header()["X-Request-Id"] = []string{id}
		c := &call{w: w, r: r}
		if s.tracer != nil && r.Method == http.MethodPost {
			c.span = s.startSpan(name, r)
		}
		status, err := handle(c)
		if err != nil {
			p := asProblem(err)
			status = p.Status
			s.metrics.problem(p.Code)
			s.errors.note(r.Context(), p, name, id)
			if doorPath(r.URL.Path) {
				p.writeChat(w)
			} else {
				p.write(w)
			}
		}
		if c.span != nil {
			endSpan(c.span, status)
		}
		s.metrics.request(name, status, time.Since(began))
	})
}

// read is the context of a read for the caller's answer.
func (s *Server) read(c *call) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.r.Context(), s.limits.ReadTimeout)
}
