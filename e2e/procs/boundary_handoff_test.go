package procs

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// The record is acknowledged and the dispatcher dies before it has deleted the handoff: its successor publishes it again.
func TestBoundary_I1_HandoffPublishedTwice(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, quick...)
	api, dispatcher := w.Node("api", "api"), w.Proxied("dispatcher", "dispatcher")
	run(t, api, dispatcher)
	unforgotten := rule(dispatcher.Postgres, forgetting, proxy.LoseRequest, always)
	send(t, &Client{Key: w.Key, Nodes: []*Node{api}}, 6)
	eventually(t, "six records, and no handoff deleted", func() bool { return w.published(t) == 6 && unforgotten.Load() > 0 })
	kill(t, dispatcher)
	dispatcher.Heal()
	watch := w.Watch()
	defer watch.Stop()
	worker := w.Node("worker", "worker")
	run(t, dispatcher, worker)
	// Its predecessor's shards are free when their leases have ended.
	eventually(t, "every record a second time", func() bool { return w.published(t) == 12 })
	w.settled(t, watch)
	w.wantStates(t, 6, "accepted")
	wantCalls(t, w.Model, 6, nil)
}

// A record that comes again long after its task has ended, from whomever, changes nothing.
func TestBoundary_I1_RecordOfAnEndedTaskAgain(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, quick...)
	node := w.Node("all", "api,dispatcher,worker")
	run(t, node)
	watch := w.Watch()
	defer watch.Stop()
	send(t, &Client{Key: w.Key, Nodes: []*Node{node}}, 6)
	w.waitFinished(t)
	for _, r := range w.read(t, w.Topic, 6) {
		again := &kgo.Record{Topic: w.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers}
		if err := w.Kafka.ProduceSync(t.Context(), again).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	w.settled(t, watch)
	w.wantStates(t, 6, "accepted")
	wantCalls(t, w.Model, 6, nil)
}

// The broker has the record and its acknowledgement is lost: the producer sends it again, and the broker knows it.
func TestBoundary_I1_PublishAcknowledgementLost(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 4, quick...)
	api, dispatcher, worker := w.Node("api", "api"), w.Proxied("dispatcher", "dispatcher"), w.Node("worker", "worker")
	run(t, api, dispatcher, worker)
	watch := w.Watch()
	defer watch.Stop()
	lost := rule(dispatcher.Kafka, "Produce", proxy.LoseAnswer, 2)
	send(t, &Client{Key: w.Key, Nodes: []*Node{api}}, 6)
	w.settled(t, watch)
	if lost.Load() < 2 {
		t.Errorf("%d acknowledgements were lost", lost.Load())
	}
	w.wantStates(t, 6, "accepted")
	wantCalls(t, w.Model, 6, nil)
}
