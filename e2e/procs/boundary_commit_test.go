package procs

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// Replies are saved and no commit ever arrives: the successor reads every record again and calls nobody.
func TestBoundary_I1_CrashAfterSaveBeforeCommit(t *testing.T) {
	eachPlace(t, func(t *testing.T, flags []string) {
		w := NewWorld(t, 4, flags...)
		front, worker := w.Node("front", "api,dispatcher"), w.Proxied("worker-1", "worker")
		uncommitted := rule(worker.Kafka, "OffsetCommit", proxy.LoseRequest, always)
		run(t, front, worker)
		watch := w.Watch()
		defer watch.Stop()
		send(t, &Client{Key: w.Key, Nodes: []*Node{front}}, 8)
		w.waitFinished(t)
		eventually(t, "a commit that does not arrive", func() bool { return uncommitted.Load() > 0 })
		kill(t, worker)
		if at := w.committed(t); len(at) != 0 {
			t.Fatalf("the group has commits: %v", at)
		}
		second := w.Node("worker-2", "worker")
		run(t, second)
		w.settled(t, watch)
		w.wantStates(t, 8, "accepted")
		wantCalls(t, w.Model, 8, nil)
	})
}

// The group has the commit and the worker does not know: it commits again, neither back nor ahead.
func TestBoundary_I2_CommitAcknowledgementLost(t *testing.T) {
	eachPlace(t, func(t *testing.T, flags []string) {
		w := NewWorld(t, 4, flags...)
		front, worker := w.Node("front", "api,dispatcher"), w.Proxied("worker", "worker")
		lost := rule(worker.Kafka, "OffsetCommit", proxy.LoseAnswer, 3)
		run(t, front, worker)
		watch := w.Watch()
		defer watch.Stop()
		client := &Client{Key: w.Key, Nodes: []*Node{front}}
		send(t, client, 8)
		eventually(t, "three acknowledgements lost", func() bool { return lost.Load() >= 3 })
		if _, err := client.Submit(t.Context(), "c100", "key-100", content(100, 0)); err != nil {
			t.Fatal(err)
		}
		w.waitFinished(t)
		w.waitCommitted(t)
		kill(t, worker)
		run(t, worker)
		w.settled(t, watch)
		w.wantStates(t, 9, "accepted")
		wantCalls(t, w.Model, 9, nil)
	})
}

// Records behind an unfinished one are finished: the position stays before it, and after a crash only it is called again.
func TestBoundary_I2_RecordsFinishedOutOfOrder(t *testing.T) {
	eachPlace(t, func(t *testing.T, flags []string) {
		w := NewWorld(t, 1, flags...)
		w.Model.Rules(`[{"match": {"contains": "conversation 000"}, "times": 1, "do": "hang"}]`)
		front, worker := w.Node("front", "api,dispatcher"), w.Node("worker-1", "worker")
		run(t, front, worker)
		watch := w.Watch()
		defer watch.Stop()
		client := &Client{Key: w.Key, Nodes: []*Node{front}}
		if _, err := client.Submit(t.Context(), "c000", "key-0", content(0, 0)); err != nil {
			t.Fatal(err)
		}
		waitCalls(t, w.Model, 1)
		send(t, client, 20) // the first is the same
		eventually(t, "19 replies", func() bool { return w.saved(t) == 19 })
		eventually(t, "a commit at the first record that says what is settled behind it", func() bool {
			at, ok := w.committed(t)[0]
			return ok && at.At == 0 && at.Metadata != ""
		})
		kill(t, worker)
		second := w.Node("worker-2", "worker")
		run(t, second)
		w.settled(t, watch)
		for _, s := range w.states(t) {
			want := "accepted"
			if s.Content == content(0, 0) {
				want = "unknown accepted"
			}
			if s.Outcomes != want || s.Status != "completed" {
				t.Errorf("%+v, want it completed after %q", s, want)
			}
		}
		wantCalls(t, w.Model, 20, map[string]int{content(0, 0): 2})
	})
}

// All records once more, from the start: what has ended stays ended, and a spent budget is spent.
func TestBoundary_I5_RedeliveryNeverRefreshesABudget(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, append(quick, "--max-attempts", "2")...)
	w.Model.Rules(`[{"match": {"contains": "conversation 00"}, "do": "status", "status": 503}]`)
	front, worker := w.Node("front", "api,dispatcher"), w.Node("worker", "worker")
	run(t, front, worker)
	client := &Client{Key: w.Key, Nodes: []*Node{front}}
	send(t, client, 4)
	for c := 100; c < 104; c++ {
		if _, err := client.Submit(t.Context(), fmt.Sprintf("c%03d", c), fmt.Sprintf("key-%d", c), content(c, 0)); err != nil {
			t.Fatal(err)
		}
	}
	w.waitFinished(t)
	w.waitCommitted(t)
	twice := map[string]int{}
	for c := range 4 {
		twice[content(c, 0)] = 2
	}
	for range 2 {
		stop(t, worker)
		back := kadm.Offsets{}
		for p := range int32(4) {
			back.Add(kadm.Offset{Topic: w.Topic, Partition: p, At: 0, LeaderEpoch: -1})
		}
		set, err := kadm.NewClient(w.Kafka).CommitOffsets(t.Context(), w.Group, back)
		if err == nil {
			err = set.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
		watch := w.Watch()
		run(t, worker)
		w.waitCommitted(t)
		if err := watch.Stop(); err != nil {
			t.Error(err)
		}
		w.checkCommits(t, watch)
	}
	wantCalls(t, w.Model, 8, twice)
	for _, s := range w.states(t) {
		want := state{Content: s.Content, Status: "completed", Attempts: 1, Replies: 1, Text: s.Text, Outcomes: "accepted"}
		if twice[s.Content] == 2 {
			want = state{Content: s.Content, Status: "failed", Attempts: 2, Class: "overloaded", Outcomes: "failed failed"}
		}
		if s != want {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
}
