package procs

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// ledgerRow is an attempt as the API shows it.
type ledgerRow struct {
	Outcome       string  `json:"outcome"`
	FailureClass  string  `json:"failure_class"`
	WireRequests  int     `json:"wire_requests"`
	InputTokens   int     `json:"input_tokens"`
	OutputTokens  int     `json:"output_tokens"`
	Amount        *string `json:"amount"`
	RecoveredFrom int     `json:"recovered_from"`
}

// attempts reads the ledger of a task.
func attempts(t *testing.T, client *Client, id string) []ledgerRow {
	t.Helper()
	status, body, err := client.Do(t.Context(), http.MethodGet, "/v1/tasks/"+id+"/attempts", "", nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("attempts: %v %d %s", err, status, body)
	}
	var list struct{ Attempts []ledgerRow }
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	return list.Attempts
}

// cost is what a task has cost, as the API shows it.
type cost struct {
	Amount      *string `json:"amount"`
	InputTokens int     `json:"input_tokens"`
	Unknown     int     `json:"unknown_attempts"`
}

func costOf(t *testing.T, task []byte) cost {
	t.Helper()
	var v struct{ Cost cost }
	if err := json.Unmarshal(task, &v); err != nil {
		t.Fatalf("%v: %s", err, task)
	}
	return v.Cost
}

// A worker has its answers and cannot save them. Then it stands still, until one task was cancelled, the deadline of
// another has passed and the third was taken over and answered. What it brings is not accepted, and was paid for.
func TestI7_LateAnswersAreRefusedAndPaidFor(t *testing.T) {
	eachPlace(t, func(t *testing.T, flags []string) {
		w := NewWorld(t, 2, flags...)
		w.Model.Rules(`[{"times": 3, "text": "late", "input_tokens": 7, "output_tokens": 9}, {"text": "in time", "input_tokens": 7, "output_tokens": 9}]`)
		front, first, second := w.Node("front", "api,dispatcher"), w.Proxied("worker-1", "worker"), w.Node("worker-2", "worker")
		unsaved := rule(first.Postgres, saving, proxy.LoseRequest, always)
		run(t, front, first)
		watch := w.Watch()
		defer watch.Stop()
		client := &Client{Key: w.Key, Nodes: []*Node{front}}
		var ids []string
		for c, fields := range []map[string]any{{}, {"deadline_seconds": 3}, {}} {
			fields["content"] = content(c, 0)
			task, err := client.Send(t.Context(), content(c, 0), content(c, 0), fields)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, task.ID)
		}
		eventually(t, "three answers that cannot be saved", func() bool {
			done := 0
			for _, c := range w.Model.Calls() {
				if c.Done != "" {
					done++
				}
			}
			return done == 3 && unsaved.Load() > 2
		})
		if err := first.Pause(); err != nil {
			t.Fatal(err)
		}
		if status, body, err := client.Do(t.Context(), http.MethodPost, "/v1/tasks/"+ids[0]+"/cancel", "", nil); err != nil || status != http.StatusOK {
			t.Fatalf("cancel: %v %d %s", err, status, body)
		}
		eventually(t, "the deadline has passed", func() (passed bool) {
			if err := w.Pool.QueryRow(t.Context(), "select deadline < clock_timestamp() from reply_tasks where id = $1", ids[1]).Scan(&passed); err != nil {
				t.Fatal(err)
			}
			return passed
		})
		run(t, second)
		w.waitFinished(t)
		first.Heal()
		if err := first.Resume(); err != nil {
			t.Fatal(err)
		}
		for i, want := range []state{
			{Status: "cancelled", Outcomes: "not_accepted"},
			{Status: "failed", Class: "deadline", Outcomes: "not_accepted"},
			{Status: "completed", Outcomes: "not_accepted accepted", Replies: 1, Text: "in time"},
		} {
			eventually(t, "the late answer to a "+want.Status+" task is in the ledger", func() bool {
				return w.states(t)[content(i, 0)].Outcomes == want.Outcomes
			})
			got := w.states(t)[content(i, 0)]
			if got.Status != want.Status || got.Class != want.Class || got.Replies != want.Replies || got.Text != want.Text {
				t.Errorf("%+v, want %+v", got, want)
			}
			rows := attempts(t, client, ids[i])
			for n, row := range rows {
				if row.WireRequests != 1 || row.InputTokens != 7 || row.OutputTokens != 9 || row.Amount == nil || *row.Amount == "0" {
					t.Errorf("%s: attempt %d is %+v", want.Status, n+1, row)
				}
			}
			_, body, err := client.Do(t.Context(), http.MethodGet, "/v1/tasks/"+ids[i], "", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := costOf(t, body); got.Amount == nil || got.InputTokens != 7*len(rows) || got.Unknown != 0 {
				t.Errorf("%s: cost %+v", want.Status, got)
			}
		}
		w.settled(t, watch)
		wantCalls(t, w.Model, 3, map[string]int{content(2, 0): 2})
	})
}
