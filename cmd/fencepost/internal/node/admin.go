package node

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fencepost/fencepost/offsets/dashboard"
)

// checkTimeout bounds one answer of /readyz.
const checkTimeout = 2 * time.Second

// readiness collects why the node cannot work. Checks are added while it starts.
type readiness struct {
	mu     sync.Mutex
	state  string // "starting", "" while it runs, "stopping"
	names  []string
	checks map[string]func(context.Context) error
}

func (r *readiness) set(state string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = state
}

// running reports whether all parts are there: until then they may be read by nobody but the start.
func (r *readiness) running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state == ""
}

func (r *readiness) add(name string, check func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = append(r.names, name)
	r.checks[name] = check
}

// report is the answer of /readyz.
type report struct {
	Ready  bool              `json:"ready"`
	State  string            `json:"state"` // starting, running, stopping
	Roles  []Role            `json:"roles"`
	Checks map[string]string `json:"checks"` // "ok", or why not
}

// report runs the checks side by side.
func (r *readiness) report(ctx context.Context, roles []Role) report {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r.mu.Lock()
	names := append([]string(nil), r.names...)
	answer := report{Ready: r.state == "", State: r.state, Roles: roles, Checks: map[string]string{}}
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		check := r.checks[name]
		wg.Go(func() { errs[i] = check(ctx) })
	}
	r.mu.Unlock()
	wg.Wait()
	if answer.State == "" {
		answer.State = "running"
	}
	for i, name := range names {
		answer.Checks[name] = "ok"
		if errs[i] != nil {
			answer.Checks[name], answer.Ready = errs[i].Error(), false
		}
	}
	return answer
}

// adminHandler serves the admin listener. It has no authentication, which is why it listens on loopback by default.
func (n *Node) adminHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	page := dashboard.New(dashboard.Config{Sources: n.pageSources(), Version: n.config.Version, Logger: n.config.Logger})
	for _, pattern := range []string{"GET /{$}", "GET /page.json", "GET /tasks/{id}"} {
		mux.Handle(pattern, page)
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok", "version": n.config.Version})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		report := n.ready.report(r.Context(), n.config.Roles)
		status := http.StatusOK
		if !report.Ready {
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, report)
	})
	mux.HandleFunc("GET /lag.json", n.serveLag)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry, ErrorHandling: promhttp.ContinueOnError}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
