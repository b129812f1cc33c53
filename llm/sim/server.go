package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// maxRequestBody bounds a chat request.
const maxRequestBody = 16 << 20

// Config of a simulated model. The zero value answers at once and keeps its ledger in memory.
type Config struct {
	Ledger  string        // file of the ledger, none when empty
	Latency time.Duration // of every answer whose rule says nothing else
	Logger  *slog.Logger  // nil: silent
}

// Server is the simulated model: an http.Handler, or a Provider in process. It is safe for concurrent use.
type Server struct {
	latency  time.Duration
	log      *slog.Logger
	script   script
	settings holder
	ledger   *ledger
	lookups  lookups
	kept     kept
	keys     keys
	mux      *http.ServeMux

	runMu   sync.Mutex // nothing is begun once Close waits
	running sync.WaitGroup

	closing   context.Context // ends when Close is called
	close     context.CancelFunc
	closeOnce sync.Once
	closeErr  error
	broken    sync.Once // a ledger that cannot be written is logged once
}

// New reads the ledger, if there is one, and is ready. Its error names the file.
func New(cfg Config) (*Server, error) {
	l, err := openLedger(cfg.Ledger)
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	s := &Server{latency: cfg.Latency, log: cfg.Logger, ledger: l}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.settings.set(defaultSettings())
	s.closing, s.close = context.WithCancel(context.Background())
	s.mux = http.NewServeMux()
	for pattern, serve := range map[string]http.HandlerFunc{
		"POST /v1/chat/completions":      func(w http.ResponseWriter, r *http.Request) { s.serve(completions, w, r) },
		"GET /v1/chat/completions":       s.serveCompletions,
		"GET /v1/chat/completions/{id}":  s.serveCompletion,
		"POST /v1/responses":             func(w http.ResponseWriter, r *http.Request) { s.serve(responses, w, r) },
		"GET /v1/responses/{id}":         s.serveResponse,
		"POST /v1/responses/{id}/cancel": s.serveCancel,
		"POST /v1/messages":              func(w http.ResponseWriter, r *http.Request) { s.serve(messages, w, r) },
		"GET /v1/models":                 serveModels,
		"PUT /sim/rules":                 s.putRules,
		"GET /sim/rules":                 s.getRules,
		"PUT /sim/settings":              s.putSettings,
		"GET /sim/settings":              s.getSettings,
		"GET /sim/requests":              s.getRequests,
		"DELETE /sim/requests":           s.deleteRequests,
		"GET /sim/lookups":               s.getLookups,
		"GET /sim/totals":                s.getTotals,
	} {
		s.mux.HandleFunc(pattern, serve)
	}
	return s, nil
}

// ServeHTTP serves the model and its control.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close lets go of every call that hangs, ends those in the background and closes the ledger. Shut the http.Server down after it, not before: that
// waits for hanging calls.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.runMu.Lock()
		s.close()
		s.runMu.Unlock()
		s.running.Wait()
		s.ledger.mu.Lock()
		defer s.ledger.mu.Unlock()
		s.closeErr = s.ledger.file.close()
		s.ledger.file = nil
	})
	return s.closeErr
}

// wait sleeps for d, or until the client or the server goes.
func (s *Server) wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-s.closing.Done():
	}
}

func (s *Server) hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.closing.Done():
	}
}

func (s *Server) note(err error) {
	if err != nil {
		s.broken.Do(func() { s.log.Error("the ledger cannot be written; it goes on in memory only", "error", err) })
	}
}

func (s *Server) putRules(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRulesBody))
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, "the rules are too large or did not arrive whole")
		return
	}
	rules, err := parseRules(body)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	s.script.set(rules)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) getRules(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.script.snapshot())
}

func (s *Server) getRequests(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if err := s.ledger.list(w); err != nil {
		s.log.Debug("the reader of the ledger left", "error", err)
	}
}

func (s *Server) deleteRequests(w http.ResponseWriter, _ *http.Request) {
	s.note(s.ledger.clear())
	s.lookups.clear()
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) getTotals(w http.ResponseWriter, _ *http.Request) {
	out := s.ledger.total()
	out.Lookups = s.lookups.count()
	writeJSON(w, http.StatusOK, out)
}

func serveModels(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{
		map[string]any{"id": "sim-1", "object": "model", "created": 1767225600, "owned_by": "fencepost"},
	}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

// apiError is OpenAI's error body.
type apiError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

func errorBody(status int, message string) []byte {
	var e apiError
	e.Error.Message, e.Error.Type = message, "invalid_request_error"
	code := ""
	switch {
	case status == http.StatusTooManyRequests:
		e.Error.Type, code = "requests", "rate_limit_exceeded"
	case status == http.StatusServiceUnavailable || status == 529:
		e.Error.Type = "overloaded_error"
	case status >= 500:
		e.Error.Type = "server_error"
	}
	if code != "" {
		e.Error.Code = &code
	}
	b, _ := json.Marshal(e) // strings only: it cannot fail
	return b
}

func writeError(w http.ResponseWriter, status int, message string) {
	writeBody(w, status, errorBody(status, message))
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

var errReadBody = errors.New("the request did not arrive whole")
