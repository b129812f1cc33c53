package procs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
	"github.com/fencepost/fencepost/tasks"
)

// spendSum is a sum as the API shows it.
type spendSum struct {
	Document     struct{ ID, Version string } `json:"document"`
	Model        string                       `json:"model"`
	Attempts     int                          `json:"attempts"`
	InputTokens  int64                        `json:"input_tokens"`
	OutputTokens int64                        `json:"output_tokens"`
	Amount       *string                      `json:"amount"`
	Unknown      int                          `json:"unknown_attempts"`
	NotAccepted  struct {
		Attempts int    `json:"attempts"`
		Amount   string `json:"amount"`
	} `json:"not_accepted"`
	Saved struct {
		Replays int    `json:"replays"`
		Amount  string `json:"amount"`
	} `json:"saved"`
}

type spendPage struct {
	Spend []spendSum `json:"spend"`
	Total spendSum   `json:"total"`
}

// spendOf reads sums by the API, and what they come to in all.
func spendOf(t *testing.T, client *Client, query string) (page spendPage) {
	t.Helper()
	status, body, err := client.Do(t.Context(), http.MethodGet, "/v1/spend"+query, "", nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("spend: %v %d %s", err, status, body)
	}
	if err := json.Unmarshal(body, &page); err != nil {
		t.Fatal(err)
	}
	return page
}

// What was spent is what the model has billed, to the picodollar: of replies, of what was refused and tried again, of answers
// that came late after a takeover and a cancellation. Replays cost nothing, and say what they saved.
func TestI7_SpendIsWhatTheModelBilled(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 2, quick...)
	w.Model.Rules(`[{"times": 3, "text": "late", "input_tokens": 7, "output_tokens": 9}, {"times": 2, "do": "status", "status": 503}, {"input_tokens": 11, "output_tokens": 13}]`)
	front, first, second := w.Node("front", "api,dispatcher"), w.Proxied("worker-1", "worker", "--llm-model", "sim-1"), w.Node("worker-2", "worker", "--llm-model", "sim-1")
	unsaved := rule(first.Postgres, saving, proxy.LoseRequest, always)
	run(t, front, first)
	client := &Client{Key: w.Key, Nodes: []*Node{front}}
	const n = 3
	ask := func(c int) Task {
		t.Helper()
		task, err := client.Send(t.Context(), content(c, 0), content(c, 0), map[string]any{
			"content": content(c, 0), "model": "sim-1", "document": map[string]string{"id": "d", "version": fmt.Sprint(c % 2)},
		})
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	var ids []string
	for c := range n {
		ids = append(ids, ask(c).ID)
	}
	eventually(t, "answers that cannot be saved", func() bool {
		done := 0
		for _, c := range w.Model.Calls() {
			if c.Done != "" {
				done++
			}
		}
		return done == n && unsaved.Load() > 2
	})
	if err := first.Pause(); err != nil {
		t.Fatal(err)
	}
	if status, body, err := client.Do(t.Context(), http.MethodPost, "/v1/tasks/"+ids[0]+"/cancel", "", nil); err != nil || status != http.StatusOK {
		t.Fatalf("cancel: %v %d %s", err, status, body)
	}
	run(t, second)
	w.waitFinished(t)
	// Of three attempts nothing is known: of one task that was cancelled, and two that went on.
	if got := spendOf(t, client, "?by=document").Total; got.Unknown != n {
		t.Errorf("%+v, want %d attempts unknown", got, n)
	}
	first.Heal()
	if err := first.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the late answers are in the ledger", func() bool { return spendOf(t, client, "").Total.Unknown == 0 })
	for c := range n {
		if task := ask(c); c > 0 && task.Status != "completed" {
			t.Errorf("a replay is %+v", task)
		}
	}

	status, body, err := get(t.Context(), w.Model.URL+"/sim/totals")
	var billed struct {
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &billed) != nil {
		t.Fatalf("the model's totals: %v %d %s", err, status, body)
	}
	amount := tasks.Dollars(billed.InputTokens*1_000_000 + billed.OutputTokens*2_000_000) // as llm/prices.csv has it
	late, whole := tasks.Dollars(n*(7*1_000_000+9*2_000_000)), n*(7*1_000_000+9*2_000_000)+(n-1)*(11*1_000_000+13*2_000_000)
	check := func() {
		t.Helper()
		for _, query := range []string{"?by=document", "?by=model", "?by=conversation", "?by=day", "?by=conversation&document=d"} {
			page := spendOf(t, client, query)
			got := page.Total
			var attempts int
			for _, s := range page.Spend {
				attempts += s.Attempts
			}
			if got.Amount == nil || *got.Amount != amount || got.InputTokens != billed.InputTokens || got.OutputTokens != billed.OutputTokens ||
				got.Attempts != 2*n+1 || got.Attempts != attempts || got.NotAccepted.Attempts != n || got.NotAccepted.Amount != late ||
				got.Saved.Replays != n || got.Saved.Amount != tasks.Dollars(int64(whole)) {
				t.Errorf("%s: %+v; %d attempts in the sums; the model has billed %+v: %s; late: %s", query, got, attempts, billed, amount, late)
			}
		}
		if versions := spendOf(t, client, "?document="+url.QueryEscape("d")+"&by=document").Spend; len(versions) != 2 {
			t.Errorf("versions %+v", versions)
		}
	}
	check()
	eventually(t, "the dispatcher has added it up", func() bool {
		var left int
		if err := w.Pool.QueryRow(t.Context(), "select count(*) from spend_changes").Scan(&left); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
	check()
	stop(t, front, first, second)
}
