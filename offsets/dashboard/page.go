package dashboard

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"number": number, "seconds": seconds, "age": age, "dollars": dollars, "maybeDollars": maybeDollars, "maybeNumber": maybeNumber,
	"percent": percent, "instant": instant, "short": short,
	"css": func() template.CSS { return template.CSS(pageCSS) },
	"js":  func() template.JS { return template.JS(pageJS) },
}).Parse(pageHTML))

// policy lets the page use its own style and script and ask its own server, and nothing else.
var policy = "default-src 'none'; style-src '" + digest(pageCSS) + "'; script-src '" + digest(pageJS) +
	"'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// parts are the sections that change, by the id of the element that holds them.
var parts = []string{"summary", "lag", "work", "money", "failures"}

// Config is what the page needs.
type Config struct {
	Sources
	Version string
	Logger  *slog.Logger // nil: nothing is told
}

type server struct {
	config Config
	reader *reader
}

// New serves the page. The handler is safe for concurrent use and starts nothing that outlives a request.
func New(c Config) http.Handler {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &server{config: c, reader: newReader(c.Sources)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /page.json", s.parts)
	mux.HandleFunc("GET /tasks/{id}", s.task)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

func (s *server) view(r *http.Request) (view, error) {
	reading, err := s.reader.read(r.Context())
	if err != nil {
		return view{}, err
	}
	q := r.URL.Query()
	return newView(reading, s.config, q.Get("sort") == "partition", q.Get("show") == "behind"), nil
}

func (s *server) page(w http.ResponseWriter, r *http.Request) {
	v, err := s.view(r)
	if err != nil {
		return // whoever asked is gone
	}
	s.html(w, http.StatusOK, "page", v)
}

// answer is /page.json: what the page replaces in itself.
type answer struct {
	Title string            `json:"title"`
	Parts map[string]string `json:"parts"` // HTML, by the id of the element that it is the content of
}

func (s *server) parts(w http.ResponseWriter, r *http.Request) {
	v, err := s.view(r)
	if err != nil {
		return
	}
	a := answer{Title: v.Title, Parts: make(map[string]string, len(parts))}
	for _, name := range parts {
		var b strings.Builder
		if err := pages.ExecuteTemplate(&b, name, v); err != nil {
			s.failed(w, err)
			return
		}
		a.Parts[name] = b.String()
	}
	writeJSON(w, http.StatusOK, a)
}

func (s *server) task(w http.ResponseWriter, r *http.Request) {
	v := taskView{ID: r.PathValue("id"), JSON: wantsJSON(r)}
	status := http.StatusOK
	if s.config.Tasks == nil {
		v.Err, status = "the database cannot be asked yet", http.StatusServiceUnavailable
	} else if task, err := s.config.Tasks.Task(r.Context(), v.ID); err != nil {
		v.Err, status = err.Error(), http.StatusBadGateway
		if errors.Is(err, ErrNoTask) {
			status = http.StatusNotFound
		}
	} else {
		v.Task = &task
	}
	switch {
	case !v.JSON:
		s.html(w, status, "task", v)
	case v.Task != nil:
		writeJSON(w, status, v.Task)
	default:
		writeJSON(w, status, map[string]string{"error": v.Err})
	}
}

func wantsJSON(r *http.Request) bool {
	return r.URL.Query().Get("format") == "json" || strings.HasPrefix(r.Header.Get("Accept"), "application/json")
}

// html writes a page, whole or not at all.
func (s *server) html(w http.ResponseWriter, status int, name string, v any) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, v); err != nil {
		s.failed(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w)
}

func (s *server) failed(w http.ResponseWriter, err error) {
	s.config.Logger.Error("the page could not be written", "error", err)
	http.Error(w, "the page could not be written; the log says why", http.StatusInternalServerError)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
