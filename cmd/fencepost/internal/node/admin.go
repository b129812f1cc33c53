package node

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fencepost/fencepost/offsets/dashboard"
)

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
		if !r.URL.Query().Has("verbose") {
			report.Parts = nil
		}
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
