package procs

import (
	"strings"
	"testing"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// A worker that stood still past its lease and its session comes back with its answers while its successor's calls are
// under way: they are refused, and recorded. TestI4_WorkerThatStoodStillCannotWrite is the same after the successor's end.
func TestBoundary_I4_OldAnswerBeforeTheSuccessorSaves(t *testing.T) {
	eachPlace(t, func(t *testing.T, flags []string) {
		w := NewWorld(t, 4, flags...)
		w.Model.Rules(`[{"times": 4, "latency": "500ms", "text": "from the one that stood still"}, {"text": "from its successor"}]`)
		front, first, second := w.Node("front", "api,dispatcher"), w.Node("worker-1", "worker"), w.Proxied("worker-2", "worker")
		run(t, front, first)
		watch := w.Watch()
		defer watch.Stop()
		send(t, &Client{Key: w.Key, Nodes: []*Node{front}}, 4)
		waitCalls(t, w.Model, 4)
		if err := first.Pause(); err != nil {
			t.Fatal(err)
		}
		second.LLM.Set(proxy.ToClient, proxy.Hold) // its answers come when we say so
		if err := second.Start(); err != nil {
			t.Fatal(err)
		}
		waitCalls(t, w.Model, 8)
		if err := first.Resume(); err != nil {
			t.Fatal(err)
		}
		w.waitMembers(t, 2)
		eventually(t, "the old answers are refused", func() bool {
			refused := 0
			for _, s := range w.states(t) {
				if strings.HasPrefix(s.Outcomes, "not_accepted") {
					refused++
				}
				if s.Replies > 0 {
					t.Fatalf("saved before the successor has its answer: %+v", s)
				}
			}
			return refused == 4
		})
		second.LLM.Set(proxy.ToClient, proxy.Pass)
		w.settled(t, watch)
		for _, s := range w.states(t) {
			if s.Replies != 1 || s.Text != "from its successor" || s.Outcomes != "not_accepted accepted" {
				t.Errorf("%+v, want its successor's reply", s)
			}
		}
		if n := len(w.Model.Calls()); n != 8 {
			t.Errorf("%d requests at the model, want 8", n)
		}
	})
}

// Half of the partitions move while all of their records are being called, and the drain is too short to wait: the calls
// go on under their leases, the new owner waits for them, and nobody calls twice.
func TestBoundary_RebalanceWithWorkInFlight(t *testing.T) {
	eachPlace(t, func(t *testing.T, flags []string) {
		w := NewWorld(t, 8, append(flags, "--lease", "3s", "--session-timeout", "3s", "--drain-timeout", "300ms")...)
		front, first, second := w.Node("front", "api,dispatcher"), w.Proxied("worker-1", "worker"), w.Proxied("worker-2", "worker")
		first.LLM.Set(proxy.ToClient, proxy.Hold)
		run(t, front, first)
		watch := w.Watch()
		defer watch.Stop()
		send(t, &Client{Key: w.Key, Nodes: []*Node{front}}, 24)
		waitCalls(t, w.Model, 24)
		claims := rule(second.Postgres, claiming, proxy.Forward, 0)
		run(t, second)
		w.waitMembers(t, 2)
		// The new owner meets the records of its partitions, whose tasks are the old one's, more than once.
		eventually(t, "the second worker asks for the tasks", func() bool { return claims.Load() >= 3 || len(w.Model.Calls()) > 24 })
		if n := w.saved(t); n != 0 {
			t.Fatalf("%d replies before there was an answer", n)
		}
		first.LLM.Set(proxy.ToClient, proxy.Pass)
		w.settled(t, watch)
		w.wantStates(t, 24, "accepted")
		wantCalls(t, w.Model, 24, nil)
	})
}
