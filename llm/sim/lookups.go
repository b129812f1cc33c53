package sim

import (
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Kinds of requests that ask for an earlier answer instead of a new one.
const (
	lookupGet        = "get"         // of one answer by its id
	lookupList       = "list"        // of stored completions
	lookupCancel     = "cancel"      // of a response
	lookupReplay     = "replay"      // the same key and body: the same answer again
	lookupInProgress = "in_progress" // the same key, while the first request runs
	lookupConflict   = "conflict"    // the same key with another body
)

// maxLookups bounds the list; the count goes on.
const maxLookups = 100_000

// Bounds of a page of stored completions.
const (
	defaultList = 20
	maxList     = 100
)

// lookup is one request that generated nothing.
type lookup struct {
	N      int64     `json:"n"`
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"`
	Of     string    `json:"of"` // the id, the key or the query
	Status int       `json:"status"`
}

// lookups lists them in memory.
type lookups struct {
	mu   sync.Mutex
	list []lookup
	n    int64
}

func (l *lookups) add(kind, of string, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	l.list = append(l.list, lookup{l.n, time.Now().UTC(), kind, cut(of, maxMetadataValue), status})
	if len(l.list) > maxLookups {
		l.list = append(l.list[:0], l.list[maxLookups/2:]...)
	}
}

func (l *lookups) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.n = nil, 0
}

func (l *lookups) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

func (l *lookups) all() []lookup {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]lookup{}, l.list...)
}

func (s *Server) getLookups(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.lookups.all())
}

// failLookup answers a lookup with a 503 when the settings want it to fail.
func (s *Server) failLookup(w http.ResponseWriter, kind, of string) bool {
	if !s.settings.failLookup() {
		return false
	}
	s.lookups.add(kind, of, http.StatusServiceUnavailable)
	writeError(w, http.StatusServiceUnavailable, "simulated failure of a lookup")
	return true
}

func listLimit(query url.Values) int {
	n, err := strconv.Atoi(query.Get("limit"))
	if err != nil || n < 1 {
		return defaultList
	}
	return min(n, maxList)
}
