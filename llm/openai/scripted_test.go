package openai_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// scripted is a server that does what a test says, and remembers what it was asked.
type scripted struct {
	*httptest.Server
	mu   sync.Mutex
	seen []asked
}

type asked struct {
	what   string // method, path and query
	header http.Header
	body   string
	from   string // the connection's other end
}

// serve answers with do.
func serve(t testing.TB, do func(w http.ResponseWriter, r asked)) *scripted {
	t.Helper()
	s := &scripted{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a := asked{r.Method + " " + r.URL.Path, r.Header.Clone(), string(body), r.RemoteAddr}
		if r.URL.RawQuery != "" {
			a.what += "?" + r.URL.RawQuery
		}
		s.mu.Lock()
		s.seen = append(s.seen, a)
		s.mu.Unlock()
		do(w, a)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *scripted) count(what string) (n int) {
	for _, a := range s.seen {
		if strings.HasPrefix(a.what, what) {
			n++
		}
	}
	return n
}

// asks counts the requests whose method, path and query begin with what.
func (s *scripted) asks(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(what)
}

// last is the last request that begins with what.
func (s *scripted) last(t testing.TB, what string) asked {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.seen) - 1; i >= 0; i-- {
		if strings.HasPrefix(s.seen[i].what, what) {
			return s.seen[i]
		}
	}
	t.Fatalf("no request begins with %q", what)
	return asked{}
}

func (a asked) field(t testing.TB, name string) any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		t.Fatal(err)
	}
	return m[name]
}

func answerJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func answerEvents(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(200)
	for _, e := range events {
		_, _ = io.WriteString(w, "data: "+e+"\n\n")
	}
	w.(http.Flusher).Flush()
}

// die breaks the connection off where it is.
func die() { panic(http.ErrAbortHandler) }
