package procs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A stop by SIGTERM lets started calls end: nothing is called twice, and nobody waits for a lease or a session.
func TestStoppedWorkerEndsItsCallsAndHandsOver(t *testing.T) {
	w := NewWorld(t, 4, "--lease", "60s", "--session-timeout", "45s")
	w.Model.Rules(`[{"latency": "1s"}]`)
	front, first, second := w.Node("front", "api,dispatcher"), w.Node("worker-1", "worker"), w.Node("worker-2", "worker")
	run(t, front, first)
	client := &Client{Key: w.Key, Nodes: []*Node{front}}
	send(t, client, 20)
	waitCalls(t, w.Model, 20)
	run(t, second)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if code, err := first.Stop(ctx); err != nil || code != 0 {
		t.Errorf("the stopped worker ends with code %d, %v", code, err)
	}
	w.waitFinished(t)
	w.waitCommitted(t)
	if n := w.saved(t); n != 20 {
		t.Errorf("%d replies, want 20", n)
	}
	if n := len(w.Model.Calls()); n != 20 {
		t.Errorf("%d requests at the model, want 20", n)
	}
}

// A worker that stood still past its lease and its session comes back with answers that are no longer wanted.
func TestI4_WorkerThatStoodStillCannotWrite(t *testing.T) {
	w := NewWorld(t, 4, "--lease", "2s", "--session-timeout", "2s")
	w.Model.Rules(`[{"times": 8, "latency": "1s", "text": "from the one that stood still"}, {"latency": "100ms", "text": "from its successor"}]`)
	front, first, second := w.Node("front", "api,dispatcher"), w.Node("worker-1", "worker"), w.Node("worker-2", "worker")
	run(t, front, first)
	send(t, &Client{Key: w.Key, Nodes: []*Node{front}}, 8)
	waitCalls(t, w.Model, 8)
	if err := first.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	w.waitFinished(t)
	watch := w.Watch()
	if err := first.Resume(); err != nil {
		t.Fatal(err)
	}
	// Back in the group, it has said all that it had to say.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := first.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	w.waitMembers(t, 2)
	w.waitCommitted(t)
	stop(t, front, first, second)
	if err := watch.Stop(); err != nil {
		t.Error(err)
	}
	w.checkCommits(t, watch)
	var late, wrong int
	err := w.Pool.QueryRow(t.Context(), `select (select count(*) from replies where text like '%stood still%'), (select count(*) from replies where text not like '%successor%')`).Scan(&late, &wrong)
	if err != nil {
		t.Fatal(err)
	}
	if n := w.saved(t); n != 8 || late != 0 || wrong != 0 {
		t.Errorf("%d replies, %d of them from the worker that stood still, %d not from its successor; want 8, 0, 0", n, late, wrong)
	}
	if n := len(w.Model.Calls()); n != 16 {
		t.Errorf("%d requests at the model, want 16: one of each worker for each task", n)
	}
}

// What is no record of ours, or points at nothing, goes to the dead-letter topic once, and the partition goes on.
func TestGarbageOnTheTopicIsDeadLettered(t *testing.T) {
	w := NewWorld(t, 1)
	node := w.Node("all", "api,dispatcher,worker")
	run(t, node)
	garbage := []string{"", "\x00\xff not JSON", `{"v":1,"task":"nonsense","workspace":"test"}`, `{"v":99}`,
		`{"v":1,"task":"01890000-0000-7000-8000-000000000000","workspace":"test"}`}
	for i, value := range garbage {
		r := &kgo.Record{Topic: w.Topic, Key: []byte(fmt.Sprint("garbage-", i)), Value: []byte(value)}
		if err := w.Kafka.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	send(t, &Client{Key: w.Key, Nodes: []*Node{node}}, 1)
	w.waitFinished(t)
	w.waitCommitted(t)
	if n := w.saved(t); n != 1 {
		t.Errorf("%d replies, want 1", n)
	}
	dead := w.read(t, w.Topic+".dlq", len(garbage))
	for i, r := range dead {
		headers := map[string]string{}
		for _, h := range r.Headers {
			headers[h.Key] = string(h.Value)
		}
		at := slices.Index(garbage, string(r.Value))
		if at < 0 || string(r.Key) != fmt.Sprint("garbage-", at) {
			t.Errorf("dead letter %d has key %q and value %q", i, r.Key, r.Value)
		}
		for _, name := range []string{"reason", "topic", "partition", "offset", "time"} {
			if headers["fencepost-dlq-"+name] == "" {
				t.Errorf("dead letter %d has no %s: %v", i, name, headers)
			}
		}
		if headers["fencepost-dlq-topic"] != w.Topic || headers["fencepost-dlq-offset"] != fmt.Sprint(at) {
			t.Errorf("dead letter of record %d says %v", at, headers)
		}
	}
}

// TestOneTaskAlone says how long an idle system takes from a press of Send to the model's call, and fails only when
// something is called twice.
func TestOneTaskAlone(t *testing.T) {
	w := NewWorld(t, 12)
	api, dispatcher, worker := w.Node("api", "api"), w.Node("dispatcher", "dispatcher"), w.Node("worker", "worker")
	run(t, api, dispatcher, worker)
	client := &Client{Key: w.Key, Nodes: []*Node{api}}
	const rounds = 30
	sent := map[string]time.Time{}
	for i := range rounds {
		sent[content(i, 0)] = time.Now()
		if _, err := client.Submit(t.Context(), fmt.Sprintf("c%03d", i), fmt.Sprintf("key-%d", i), content(i, 0)); err != nil {
			t.Fatal(err)
		}
		waitCalls(t, w.Model, i+1)
	}
	w.waitFinished(t)
	var took []time.Duration
	for _, call := range w.Model.Calls() {
		took = append(took, call.Time.Sub(sent[call.Content]))
	}
	if len(took) != rounds || w.saved(t) != rounds {
		t.Fatalf("%d requests and %d replies for %d messages", len(took), w.saved(t), rounds)
	}
	slices.Sort(took)
	t.Logf("from Send to the model's call: median %s, 90%% %s, most %s", took[rounds/2], took[rounds*9/10], took[rounds-1])
}
