package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// settings are what a provider does with what it has made, as PUT /sim/settings takes them. What is not said there is
// the default.
type settings struct {
	BillOnDisconnect bool     `json:"bill_on_disconnect"` // a client that leaves, or cancels, pays for the whole answer
	StoreDelay       duration `json:"store_delay"`        // until an answer can be asked for
	StoreAbandoned   bool     `json:"store_abandoned"`    // also one whose client left before its end
	StoreRetention   duration `json:"store_retention"`    // how long it is kept, 0s: as long as the server runs
	CancelWins       bool     `json:"cancel_wins"`        // false: a cancelled response goes on
	FailLookups      int      `json:"fail_lookups"`       // the next so many lookups get a 503

	IdempotencyHeader     string   `json:"idempotency_header"` // empty: there are no keys
	IdempotencyRetention  duration `json:"idempotency_retention"`
	IdempotencyInProgress int      `json:"idempotency_in_progress"` // the status of a repetition while the first request runs
	IdempotencyConflict   int      `json:"idempotency_conflict"`    // and of one with another body
}

func defaultSettings() settings {
	return settings{
		BillOnDisconnect: true, StoreAbandoned: true, CancelWins: true,
		IdempotencyRetention: duration(maxLatency), IdempotencyInProgress: http.StatusConflict, IdempotencyConflict: http.StatusUnprocessableEntity,
	}
}

// parseSettings reads all settings. Its errors are for the person who wrote them.
func parseSettings(body []byte) (settings, error) {
	out := defaultSettings()
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return out, fmt.Errorf("settings must be a JSON object of settings: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return out, errors.New("something follows the settings")
	}
	switch {
	case out.FailLookups < 0:
		return out, errors.New("fail_lookups must be 0 or more")
	case out.IdempotencyHeader != "" && !headerName(out.IdempotencyHeader):
		return out, fmt.Errorf("idempotency_header %q is no header's name", out.IdempotencyHeader)
	case out.IdempotencyRetention == 0:
		return out, errors.New("idempotency_retention must be more than 0s")
	}
	for _, status := range [...]int{out.IdempotencyInProgress, out.IdempotencyConflict} {
		if status < 400 || status > 599 {
			return out, fmt.Errorf("status %d of a repetition is not between 400 and 599", status)
		}
	}
	return out, nil
}

// holder hands out the settings in force.
type holder struct {
	mu  sync.Mutex
	now settings
}

func (h *holder) get() settings {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *holder) set(to settings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = to
}

// failLookup takes one of the lookups that are to fail.
func (h *holder) failLookup() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now.FailLookups == 0 {
		return false
	}
	h.now.FailLookups--
	return true
}

func (s *Server) putSettings(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRulesBody))
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, "the settings are too large or did not arrive whole")
		return
	}
	to, err := parseSettings(body)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	s.settings.set(to)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) getSettings(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.settings.get())
}

// expired reports whether a key that was used until then is forgotten.
func (set settings) expired(until, now time.Time) bool {
	return !now.Before(until.Add(time.Duration(set.IdempotencyRetention)))
}
