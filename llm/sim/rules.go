package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	maxRules     = 10_000
	maxRulesBody = 8 << 20
	maxLatency   = time.Hour
	maxLineBytes = 64 << 20
	maxToolCalls = 128
)

// rule is one line of the script, as PUT /sim/rules takes it.
type rule struct {
	Match        match             `json:"match"`
	Times        *int              `json:"times,omitempty"` // what is left of it
	Latency      duration          `json:"latency,omitempty"`
	Do           string            `json:"do,omitempty"`
	Status       int               `json:"status,omitempty"`
	Headers      map[string]string `json:"headers,omitempty"`
	Body         json.RawMessage   `json:"body,omitempty"` // a string is sent as it is, anything else as JSON
	Text         *string           `json:"text,omitempty"`
	ToolCalls    []toolCall        `json:"tool_calls,omitempty"`    // of an answer in chat completions, besides its text
	FinishReason *string           `json:"finish_reason,omitempty"` // sent as it is; empty: none is sent
	InputTokens  *int64            `json:"input_tokens,omitempty"`
	OutputTokens *int64            `json:"output_tokens,omitempty"`

	// Parts of the two counts above.
	CachedTokens     int64 `json:"cached_tokens,omitempty"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
	ReasoningTokens  int64 `json:"reasoning_tokens,omitempty"`

	Chunks       *int     `json:"chunks,omitempty"`        // pieces of text in a stream before its fault
	ChunkLatency duration `json:"chunk_latency,omitempty"` // before each piece of text in a stream
	LineBytes    int      `json:"line_bytes,omitempty"`    // each piece of text, or a plain answer, comes in a line of at least so many

	seen int // requests that fit everything but nth, for nth
}

// match holds a rule's conditions; empty ones fit every request.
type match struct {
	Contains string `json:"contains,omitempty"` // in the last user message
	Model    string `json:"model,omitempty"`
	Nth      int    `json:"nth,omitempty"` // the nth request that fits the other conditions, from 1
}

// duration is "1.5s" in JSON.
type duration time.Duration

func (d *duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New(`latency must be a string such as "1.5s"`)
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 || v > maxLatency {
		return fmt.Errorf("latency %q is not a duration between 0s and %s", s, maxLatency)
	}
	*d = duration(v)
	return nil
}

func (d duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// parseRules reads a whole script. Its errors are for the person who wrote it.
func parseRules(body []byte) ([]*rule, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	var rules []*rule
	if err := dec.Decode(&rules); err != nil {
		return nil, fmt.Errorf("rules must be a JSON list of rules: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the list of rules")
	}
	if rules == nil {
		return nil, errors.New("rules must be a JSON list; [] clears them")
	}
	if len(rules) > maxRules {
		return nil, fmt.Errorf("%d rules are more than %d", len(rules), maxRules)
	}
	for i, r := range rules {
		if r == nil {
			return nil, fmt.Errorf("rule %d is null", i)
		}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
	}
	return rules, nil
}

func (r *rule) check() error {
	if r.Do == "" {
		r.Do = doAnswer
	}
	act, known := actionOf(r.Do)
	switch {
	case !known:
		return fmt.Errorf("do %q is none of %s", r.Do, actionWords())
	case r.Match.Nth < 0:
		return errors.New("match.nth must be 1 or more")
	case r.Times != nil && *r.Times < 0:
		return errors.New("times must be 0 or more")
	case r.Status != 0 && (r.Status < 200 || r.Status > 599):
		return fmt.Errorf("status %d is not between 200 and 599", r.Status)
	case r.Status != 0 && r.Do != doStatus && r.Do != doAnswer:
		return fmt.Errorf("status does not go with do %q", r.Do)
	case r.InputTokens != nil && *r.InputTokens < 0, r.OutputTokens != nil && *r.OutputTokens < 0,
		r.CachedTokens < 0, r.CacheWriteTokens < 0, r.ReasoningTokens < 0:
		return errors.New("token counts must be 0 or more")
	case len(r.ToolCalls) > maxToolCalls:
		return fmt.Errorf("%d tool calls are more than %d", len(r.ToolCalls), maxToolCalls)
	case r.Chunks != nil && *r.Chunks < 0:
		return errors.New("chunks must be 0 or more")
	case r.Chunks != nil && act.strike == strikeNever:
		return fmt.Errorf("chunks does not go with do %q", r.Do)
	case r.LineBytes < 0 || r.LineBytes > maxLineBytes:
		return fmt.Errorf("line_bytes %d is not between 0 and %d", r.LineBytes, maxLineBytes)
	}
	for k, v := range r.Headers {
		if !headerName(k) || strings.ContainsAny(v, "\r\n\x00") {
			return fmt.Errorf("header %q cannot be sent", k)
		}
	}
	if r.Status == 0 && r.Do == doStatus {
		r.Status = http.StatusInternalServerError
	}
	return nil
}

func headerName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}) < 0
}

// rawBody returns the rule's body as it goes on the wire, and whether it has one.
func (r *rule) rawBody() ([]byte, bool) {
	if len(r.Body) == 0 || string(r.Body) == "null" {
		return nil, false
	}
	var s string
	if json.Unmarshal(r.Body, &s) == nil {
		return []byte(s), true
	}
	return r.Body, true
}

// script is the list of rules in force.
type script struct {
	mu    sync.Mutex
	rules []*rule
}

func (s *script) set(rules []*rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = rules
}

// pick returns a copy of the first rule that fits, and takes one of its times; without one, a plain answer. Every rule
// whose other conditions fit counts the request for its nth, whether or not an earlier rule takes it.
func (s *script) pick(model, content string) rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	var picked *rule
	for _, r := range s.rules {
		if r.Match.Model != "" && r.Match.Model != model || !strings.Contains(content, r.Match.Contains) {
			continue
		}
		r.seen++
		if picked != nil || r.Match.Nth != 0 && r.Match.Nth != r.seen || r.Times != nil && *r.Times == 0 {
			continue
		}
		picked = r
	}
	if picked == nil {
		return rule{Do: doAnswer}
	}
	out := *picked
	if picked.Times != nil {
		left := *picked.Times - 1
		picked.Times = &left // a new one: copies given out keep theirs
	}
	return out
}

func (s *script) snapshot() []rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]rule, len(s.rules))
	for i, r := range s.rules {
		out[i] = *r
	}
	return out
}
