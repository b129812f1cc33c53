package outbox_test

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// reader consumes the topic from its start.
type reader struct {
	w       *world
	client  *kgo.Client
	records []*kgo.Record
	tasks   []uuid.UUID // of first publications, in order
	seen    map[uuid.UUID]bool
}

func (w *world) reader() *reader {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.addrs...), kgo.ConsumeTopics(w.topic),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	return &reader{w: w, client: client, seen: map[uuid.UUID]bool{}}
}

// distinct reads until records of n distinct tasks were seen.
func (r *reader) distinct(n int) *reader {
	r.w.t.Helper()
	for end := time.Now().Add(deadline); len(r.tasks) < n; r.poll() {
		if time.Now().After(end) {
			r.w.t.Fatalf("%d of %d tasks on the topic after %v", len(r.tasks), n, deadline)
		}
	}
	return r
}

// poll reads what is there within a second.
func (r *reader) poll() {
	ctx, cancel := context.WithTimeout(r.w.t.Context(), time.Second)
	defer cancel()
	r.client.PollFetches(ctx).EachRecord(r.add)
}

func (r *reader) add(rec *kgo.Record) {
	r.records = append(r.records, rec)
	var value struct {
		Task uuid.UUID `json:"task"`
	}
	if err := json.Unmarshal(rec.Value, &value); err != nil {
		r.w.t.Errorf("value %q: %v", rec.Value, err)
	}
	if !r.seen[value.Task] {
		r.seen[value.Task] = true
		r.tasks = append(r.tasks, value.Task)
	}
}

// inOrder checks that the first publications of each conversation stand in the order given.
func (r *reader) inOrder(conversations map[string][]uuid.UUID) {
	r.w.t.Helper()
	place := map[uuid.UUID]int{}
	for i, id := range r.tasks {
		place[id] = i
	}
	for c, ids := range conversations {
		for i := range ids[1:] {
			first, second := place[ids[i]], place[ids[i+1]]
			if first > second {
				r.w.t.Errorf("conversation %s: message %d was published before message %d", c, i+2, i+1)
			}
		}
	}
}
