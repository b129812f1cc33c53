package httpapi

import (
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

// TestI7_BudgetRefusesNewMessages: what is too much is refused, stores nothing, and says when to come back; another
// workspace, a replay and work that was accepted go on.
func TestI7_BudgetRefusesNewMessages(t *testing.T) {
	store := memory.New(memory.Config{})
	registry := prometheus.NewRegistry()
	asked := make(chan tasks.Request, 10)
	a := newAPIOn(t, store, func(c *Config) {
		c.Registerer = registry
		c.Reserve = func(r tasks.Request) *int64 {
			asked <- r
			if r.Model == "unheard-of" {
				return nil
			}
			cost := int64(len(r.Content))
			return &cost
		}
	})
	perDay := int64(9)
	if err := store.SetBudget(t.Context(), "w1", &perDay); err != nil {
		t.Fatal(err)
	}
	const hello = `{"content":"hello","system":"be brief"}`
	post := func(key, body string) answer { return a.do("POST", messages, body, "Idempotency-Key", key) }
	post("k1", hello).want(t, 202)
	if r := <-asked; r.Content != "hello" || r.System != "be brief" || r.Model != "m-default" {
		t.Errorf("asked for the price of %+v", r)
	}
	refused := post("k2", hello)
	refused.problem(t, 429, "budget_exhausted")
	if after, err := strconv.Atoi(refused.Header.Get("Retry-After")); err != nil || after < 1 || after > 24*60*60 {
		t.Errorf("Retry-After %q, want the seconds until midnight", refused.Header.Get("Retry-After"))
	}
	if p := post("k3", `{"content":"hi","model":"unheard-of"}`).problem(t, 422, "invalid_request"); p["field"] != "model" {
		t.Errorf("problem %v, want the field model", p)
	}
	if replay := post("k1", hello).want(t, 202); replay.Header.Get("Idempotency-Replayed") != "true" {
		t.Error("the replay of what was accepted is none")
	}
	a.do("POST", messages, hello, "Idempotency-Key", "k2", "Authorization", "Bearer "+a.other).want(t, 202)
	perDay = 10
	if err := store.SetBudget(t.Context(), "w1", &perDay); err != nil {
		t.Fatal(err)
	}
	if again := post("k2", hello).want(t, 202); again.Header.Get("Idempotency-Replayed") != "" {
		t.Error("the key of what was refused was kept")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var exhausted float64
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "fencepost_http_problems_total" && m.GetLabel()[0].GetValue() == "budget_exhausted" {
				exhausted = m.GetCounter().GetValue()
			}
		}
	}
	if exhausted != 1 {
		t.Errorf("%v refusals are counted, want 1", exhausted)
	}
}

func TestUntilMidnight(t *testing.T) {
	east := time.FixedZone("east", 5*60*60)
	for _, c := range []struct {
		now  time.Time
		want time.Duration
	}{
		{time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), 24 * time.Hour},
		{time.Date(2026, 11, 30, 23, 59, 59, 5e8, time.UTC), 500 * time.Millisecond},
		{time.Date(2026, 12, 1, 3, 0, 0, 0, east), 2 * time.Hour},
	} {
		if got := untilMidnight(c.now); got != c.want {
			t.Errorf("%v: %v, want %v", c.now, got, c.want)
		}
	}
}
