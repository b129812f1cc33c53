package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks/memory"
)

// While too many tasks wait, new ones are refused and say so; what was accepted before can be repeated, and once there is
// room again new ones are taken.
func TestNewWorkIsRefusedWhileTheBacklogIsFull(t *testing.T) {
	store := memory.New(memory.Config{})
	a := newAPIOn(t, store, func(c *Config) { c.Backlog, c.Limits.MaxUnfinished = store, 2 })
	post := func(key string) answer { return a.do("POST", messages, `{"content":"hello"}`, "Idempotency-Key", key) }
	until := func(what string, status int) answer {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if answer := post(uuid.NewString()); answer.StatusCode == status {
				return answer
			}
			if time.Now().After(deadline) {
				t.Fatal("never:", what)
			}
		}
	}
	first, second := a.send("k1", `{"content":"hello"}`), a.send("k2", `{"content":"hello"}`)
	refused := until("a full backlog refuses", http.StatusServiceUnavailable)
	refused.problem(t, http.StatusServiceUnavailable, "overloaded")
	if refused.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if repeat := post("k2").want(t, http.StatusAccepted); repeat.Header.Get("Idempotency-Replayed") != "true" || repeat.object(t)["id"] != second.String() {
		t.Errorf("a repeat is answered %s", repeat.body)
	}
	// Those that got in before the first count came to an end have to go, too.
	a.finish(first, "done")
	a.finish(second, "done")
	for _, task := range a.do("GET", "/v1/tasks?status=queued", "").object(t)["tasks"].([]any) {
		a.finish(uuid.MustParse(task.(map[string]any)["id"].(string)), "done")
	}
	until("there is room again", http.StatusAccepted)
}
