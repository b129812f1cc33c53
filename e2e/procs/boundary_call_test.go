package procs

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// The attempt is counted and the worker dies before its request has reached the model: the attempt is spent, the budget
// knows it, and the model has heard of the message once.
func TestBoundary_I5_CrashAfterClaimBeforeCall(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, quick...)
	front, worker := w.Node("front", "api,dispatcher"), w.Proxied("worker-1", "worker")
	worker.LLM.Set(proxy.ToServer, proxy.Drop) // the request leaves the worker at most for nowhere
	run(t, front, worker)
	watch := w.Watch()
	defer watch.Stop()
	send(t, &Client{Key: w.Key, Nodes: []*Node{front}}, 5)
	eventually(t, "five claims", func() bool {
		claimed := 0
		for _, s := range w.states(t) {
			claimed += s.Attempts
		}
		return claimed == 5
	})
	kill(t, worker)
	if n := len(w.Model.Calls()); n != 0 {
		t.Fatalf("%d requests have reached the model", n)
	}
	second := w.Node("worker-2", "worker")
	run(t, second)
	w.settled(t, watch)
	w.wantStates(t, 5, "unknown accepted")
	wantCalls(t, w.Model, 5, nil)
}

// The claim is committed and its acknowledgement lost: nobody works on the task until the lease ends, and then one does.
func TestBoundary_I5_ClaimAcknowledgementLost(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 1, quick...)
	front, worker := w.Node("front", "api,dispatcher"), w.Proxied("worker", "worker")
	lost := rule(worker.Postgres, claiming, proxy.LoseAnswer, 1)
	run(t, front, worker)
	watch := w.Watch()
	defer watch.Stop()
	send(t, &Client{Key: w.Key, Nodes: []*Node{front}}, 1)
	w.settled(t, watch)
	if lost.Load() < 2 {
		t.Fatalf("%d claims: none was lost and repeated", lost.Load())
	}
	w.wantStates(t, 1, "unknown accepted")
	wantCalls(t, w.Model, 1, nil)
}

// The worker has the answer and dies before it is saved: the call is made again, and both are in the ledger.
func TestBoundary_I1_CrashAfterAnswerBeforeSave(t *testing.T) {
	eachPlace(t, func(t *testing.T, flags []string) {
		w := NewWorld(t, 4, flags...)
		front, worker := w.Node("front", "api,dispatcher"), w.Proxied("worker-1", "worker")
		unsaved := rule(worker.Postgres, saving, proxy.LoseRequest, always)
		run(t, front, worker)
		watch := w.Watch()
		defer watch.Stop()
		send(t, &Client{Key: w.Key, Nodes: []*Node{front}}, 5)
		waitCalls(t, w.Model, 5)
		eventually(t, "an answer that cannot be saved", func() bool { return unsaved.Load() > 0 })
		kill(t, worker)
		second := w.Node("worker-2", "worker")
		run(t, second)
		w.settled(t, watch)
		w.wantStates(t, 5, "unknown accepted")
		twice := map[string]int{}
		for c := range 5 {
			twice[content(c, 0)] = 2
		}
		wantCalls(t, w.Model, 5, twice)
	})
}

// The reply is saved and the worker does not hear of it: it asks again, and is told that it was.
func TestBoundary_I1_SaveAcknowledgementLost(t *testing.T) {
	eachPlace(t, func(t *testing.T, flags []string) {
		w := NewWorld(t, 4, flags...)
		front, worker := w.Node("front", "api,dispatcher"), w.Proxied("worker", "worker")
		lost := rule(worker.Postgres, saving, proxy.LoseAnswer, 2)
		run(t, front, worker)
		watch := w.Watch()
		defer watch.Stop()
		send(t, &Client{Key: w.Key, Nodes: []*Node{front}}, 5)
		w.settled(t, watch)
		if lost.Load() < 2 {
			t.Fatalf("%d settles: none was repeated", lost.Load())
		}
		w.wantStates(t, 5, "accepted")
		wantCalls(t, w.Model, 5, nil)
	})
}

// A task that takes its worker down each time ends, by the calls that were begun or by the leases that ran out.
func TestBoundary_I5_CrashLoopEnds(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, "--lease", "1s", "--session-timeout", "1s")
	w.Model.Rules(`[{"do": "hang"}]`)
	front, worker := w.Node("front", "api,dispatcher"), w.Node("worker", "worker")
	run(t, front)
	client := &Client{Key: w.Key, Nodes: []*Node{front}}
	for c, message := range []map[string]any{
		{"content": content(0, 0), "max_attempts": 3},
		{"content": content(1, 0), "max_attempts": 20},
	} {
		if _, err := client.Send(t.Context(), fmt.Sprintf("c%03d", c), fmt.Sprintf("key-%d", c), message); err != nil {
			t.Fatal(err)
		}
	}
	// No flag sets it, and the default of 10 would take long.
	if _, err := w.Pool.Exec(t.Context(), "update reply_tasks set max_interruptions = 2 where max_attempts = 20"); err != nil {
		t.Fatal(err)
	}
	watch := w.Watch()
	defer watch.Stop()
	unfinished := func() (n int) {
		for _, s := range w.states(t) {
			if s.Status != "failed" {
				n++
			}
		}
		return n
	}
	for life := 1; ; life++ {
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		// Both tasks are called in each life, or both have ended.
		eventually(t, "both are called, or have ended", func() bool {
			return len(w.Model.Calls()) == 2*life || unfinished() == 0
		})
		if unfinished() == 0 {
			break
		}
		if life == 4 {
			t.Fatalf("still alive after %d lives: %+v", life, w.states(t))
		}
		kill(t, worker)
	}
	w.settled(t, watch)
	all := w.states(t)
	if s := all[content(0, 0)]; s.Class != "attempts" || s.Attempts != 3 {
		t.Errorf("%+v, want it failed for its attempts after 3", s)
	}
	if s := all[content(1, 0)]; s.Class != "interrupted" || s.Interruptions != 3 {
		t.Errorf("%+v, want it failed for its interruptions after 3", s)
	}
	wantCalls(t, w.Model, 2, map[string]int{content(0, 0): 3, content(1, 0): 3})
}

// Cancel stops the call, refuses every answer to it, and frees the record.
func TestBoundary_I4_Cancel(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 1, quick...)
	w.Model.Rules(`[{"match": {"contains": "conversation 000"}, "do": "hang"}]`)
	front, worker := w.Node("front", "api,dispatcher"), w.Node("worker", "worker")
	run(t, front, worker)
	watch := w.Watch()
	defer watch.Stop()
	client := &Client{Key: w.Key, Nodes: []*Node{front}}
	task, err := client.Submit(t.Context(), "c000", "key-0", content(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	send(t, client, 3) // the first is the same
	waitCalls(t, w.Model, 3)
	status, body, err := client.Do(t.Context(), http.MethodPost, "/v1/tasks/"+task.ID+"/cancel", "", nil)
	if err != nil || status != http.StatusOK || fieldOf(t, string(body), "status") != "cancelled" {
		t.Fatalf("cancel: %v %d %s", err, status, body)
	}
	eventually(t, "the model is hung up on", func() bool {
		for _, c := range w.Model.Calls() {
			if c.Content == content(0, 0) {
				return c.ClientGone
			}
		}
		return false
	})
	w.settled(t, watch)
	if s := w.states(t)[content(0, 0)]; s.Status != "cancelled" || s.Replies != 0 || s.Attempts != 1 {
		t.Errorf("%+v, want it cancelled, without a reply, after one attempt", s)
	}
	wantCalls(t, w.Model, 3, nil)
}

// A deadline that passes during the call ends the task, and its record.
func TestBoundary_I4_Deadline(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 1, quick...)
	w.Model.Rules(`[{"match": {"contains": "conversation 000"}, "do": "hang"}]`)
	front, worker := w.Node("front", "api,dispatcher"), w.Node("worker", "worker")
	run(t, front, worker)
	watch := w.Watch()
	defer watch.Stop()
	client := &Client{Key: w.Key, Nodes: []*Node{front}}
	if _, err := client.Send(t.Context(), "c000", "late", map[string]any{"content": content(0, 0), "deadline_seconds": 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Submit(t.Context(), "c001", "key-1", content(1, 0)); err != nil {
		t.Fatal(err)
	}
	w.settled(t, watch)
	all := w.states(t)
	if s := all[content(0, 0)]; s.Status != "failed" || s.Class != "deadline" || s.Replies != 0 {
		t.Errorf("%+v, want it failed for its deadline", s)
	}
	if s := all[content(1, 0)]; s.Status != "completed" {
		t.Errorf("%+v, want it completed", s)
	}
	wantCalls(t, w.Model, 2, nil)
}
