package procs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Model is the simulated model as a process of its own. What it has seen is counted outside of the product.
type Model struct {
	URL  string
	Node *Node

	t testing.TB
}

// Call is one request that arrived at the model.
type Call struct {
	N          int64     `json:"n"`
	Time       time.Time `json:"time"`
	Content    string    `json:"content"`
	Done       string    `json:"done"`
	ClientGone bool      `json:"client_gone"`

	Headers struct {
		TraceParent string `json:"traceparent"`
	} `json:"headers"`
}

func startModel(t testing.TB) *Model {
	t.Helper()
	addr := freeAddress(t)
	m := &Model{URL: "http://" + addr, t: t}
	m.Node = newNode(t, "model", []string{"llm-sim", "--listen", addr, "--ledger", filepath.Join(t.TempDir(), "model.jsonl")})
	if err := m.Node.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		status, _, err := get(ctx, m.URL+"/sim/totals")
		if err == nil && status == http.StatusOK {
			return m
		}
		if !m.Node.Alive() || ctx.Err() != nil {
			t.Fatalf("the model does not start: %v\n%s", err, m.Node.Log())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Rules scripts the model: a JSON list.
func (m *Model) Rules(rules string) {
	m.t.Helper()
	m.put("/sim/rules", rules)
}

// Settings say what the model keeps: a JSON object.
func (m *Model) Settings(settings string) {
	m.t.Helper()
	m.put("/sim/settings", settings)
}

func (m *Model) put(path, body string) {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodPut, m.URL+path, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	status, answer, err := do(req)
	if err != nil || status/100 != 2 {
		m.t.Fatalf("%s: %v %d %s", path, err, status, answer)
	}
}

// Calls lists every request that arrived.
func (m *Model) Calls() []Call {
	m.t.Helper()
	status, body, err := get(m.t.Context(), m.URL+"/sim/requests")
	if err != nil || status != http.StatusOK {
		m.t.Fatalf("the model's ledger: %v %d", err, status)
	}
	var calls []Call
	if err := json.Unmarshal(body, &calls); err != nil {
		m.t.Fatalf("the model's ledger: %v", err)
	}
	return calls
}

// fieldOf reads one string out of a JSON object.
func fieldOf(t testing.TB, object, field string) string {
	t.Helper()
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader([]byte(object)))
	if err := d.Decode(&all); err != nil {
		t.Fatalf("%v: %s", err, object)
	}
	s := fmt.Sprint(all[field])
	if all[field] == nil || s == "" {
		t.Fatalf("no %s in %s", field, object)
	}
	return s
}
