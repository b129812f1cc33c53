package procs

import (
	"net/http"
	"testing"
)

// A worker is killed in the middle of its calls, and the provider has made the answers all the same. Where a way to
// recover is declared, the next worker finds them: nothing is generated again, also for a task that says stop, and what
// the first attempt cost is known.
func TestBoundary_I7_LostAnswersAreFound(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		settings string
		flags    []string
		wire     int // requests of the attempt that looks
	}{
		"background":         {flags: []string{"--llm-api", "responses", "--llm-recovery", "background"}},
		"stored-completions": {flags: []string{"--llm-recovery", "stored-completions"}},
		// The same request again, which the key makes no second generation.
		"idempotency-key": {settings: `{"idempotency_header": "Idempotency-Key"}`, wire: 1,
			flags: []string{"--llm-recovery", "idempotency-key", "--llm-recovery-retention", "1h"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := NewWorld(t, 2, quick...)
			if way.settings != "" {
				w.Model.Settings(way.settings)
			}
			w.Model.Rules(`[{"latency": "1500ms", "input_tokens": 7, "output_tokens": 9}]`)
			front, first, second := w.Node("front", "api,dispatcher"), w.Node("worker-1", "worker", way.flags...), w.Node("worker-2", "worker", way.flags...)
			run(t, front, first)
			watch := w.Watch()
			defer watch.Stop()
			client := &Client{Key: w.Key, Nodes: []*Node{front}}
			var ids []string
			for c, policy := range []string{"retry", "stop"} {
				task, err := client.Send(t.Context(), content(c, 0), content(c, 0), map[string]any{"content": content(c, 0), "on_ambiguous": policy})
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, task.ID)
			}
			waitCalls(t, w.Model, 2)
			if name == "background" {
				eventually(t, "both ids are noted", func() bool {
					var noted int
					if err := w.Pool.QueryRow(t.Context(), "select count(*) from attempts where provider_ref is not null").Scan(&noted); err != nil {
						t.Fatal(err)
					}
					return noted == 2
				})
			}
			kill(t, first)
			eventually(t, "the model has both answers", func() bool {
				for _, c := range w.Model.Calls() {
					if c.Done == "" {
						return false
					}
				}
				return true
			})
			run(t, second)
			w.settled(t, watch)
			wantCalls(t, w.Model, 2, nil)
			for i, id := range ids {
				s := w.states(t)[content(i, 0)]
				if s.Status != "completed" || s.Replies != 1 {
					t.Errorf("%+v, want it completed", s)
				}
				rows := attempts(t, client, id)
				if len(rows) != 2 {
					t.Errorf("attempts %+v, want two", rows)
					continue
				}
				lost, found := rows[0], rows[1]
				if lost.InputTokens != 7 || lost.OutputTokens != 9 || lost.Amount == nil || *lost.Amount == "0" || lost.RecoveredFrom != 0 {
					t.Errorf("the lost attempt is %+v, want what it cost", lost)
				}
				if found.Outcome != "accepted" || found.RecoveredFrom != 1 || found.WireRequests != way.wire || found.Amount == nil || *found.Amount != "0" {
					t.Errorf("the attempt that looked is %+v, want the answer of the first for nothing", found)
				}
			}
		})
	}
}

// A task that says stop is not called again after its worker was killed in the middle of the call, where nothing can be
// looked up: it has failed, and its cost is unknown.
func TestBoundary_I7_StopAtTakeover(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 2, quick...)
	w.Model.Rules(`[{"times": 2, "do": "hang"}]`)
	front, first, second := w.Node("front", "api,dispatcher"), w.Node("worker-1", "worker"), w.Node("worker-2", "worker")
	run(t, front, first)
	watch := w.Watch()
	defer watch.Stop()
	client := &Client{Key: w.Key, Nodes: []*Node{front}}
	for c, policy := range []string{"retry", "stop"} {
		if _, err := client.Send(t.Context(), content(c, 0), content(c, 0), map[string]any{"content": content(c, 0), "on_ambiguous": policy}); err != nil {
			t.Fatal(err)
		}
	}
	waitCalls(t, w.Model, 2)
	kill(t, first)
	run(t, second)
	w.settled(t, watch)
	all := w.states(t)
	if s := all[content(0, 0)]; s.Status != "completed" || s.Outcomes != "unknown accepted" {
		t.Errorf("%+v, want it completed by a second call", s)
	}
	if s := all[content(1, 0)]; s.Status != "failed" || s.Class != "ambiguous" || s.Attempts != 1 || s.Outcomes != "unknown" {
		t.Errorf("%+v, want it failed after its one call", s)
	}
	wantCalls(t, w.Model, 2, map[string]int{content(0, 0): 2})
	for c := range 2 {
		var id string
		if err := w.Pool.QueryRow(t.Context(), "select t.id::text from reply_tasks t join messages m on m.id = t.message_id where m.content = $1", content(c, 0)).Scan(&id); err != nil {
			t.Fatal(err)
		}
		_, body, err := client.Do(t.Context(), http.MethodGet, "/v1/tasks/"+id, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := costOf(t, body); got.Amount != nil || got.Unknown != 1 {
			t.Errorf("cost %+v, want it unknown", got)
		}
	}
}
