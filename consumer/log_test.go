package consumer_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/tasks"
)

func TestI2_TransactionMarkersHoldNothingBack(t *testing.T) {
	w := newWorld(t, 1)
	producer, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.TransactionalID("t"), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	var ids []uuid.UUID
	for i, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		id := w.submit(fmt.Sprint(i), fmt.Sprint("m", i))
		value := []byte(`{"v":1,"task":"` + id.String() + `","workspace":"acme"}`)
		if err := producer.ProduceSync(t.Context(), &kgo.Record{Key: []byte(fmt.Sprint(i)), Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
		if commit {
			ids = append(ids, id)
		}
	}
	w.start("w1")
	for _, id := range ids {
		w.finished(id, tasks.StatusCompleted)
	}
	eventually(t, "the last marker is committed: no lag stays", func() bool { return w.committed(0) == 6 })
	if w.model.called("m1") != 0 {
		t.Error("a record of an aborted transaction was worked")
	}
}

func TestI2_CompactionHoldsNothingBack(t *testing.T) {
	w := newWorld(t, 1)
	const compacted = "compacted"
	if err := w.cluster.CreateTopic(compacted, 1, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	var last uuid.UUID
	for i := range 20 {
		last = w.submit("c", fmt.Sprint("m", i))
		rec := &kgo.Record{Topic: compacted, Key: []byte(fmt.Sprint("k", i%2)), Value: []byte(`{"v":1,"task":"` + last.String() + `","workspace":"acme"}`)}
		if err := w.client.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	w.cluster.Compact()
	w.start("w1", func(c *consumer.Config) { c.Topic = compacted })
	w.finished(last, tasks.StatusCompleted)
	eventually(t, "the end is committed", func() bool {
		o, err := w.admin.FetchOffsets(t.Context(), group)
		at, ok := o.Lookup(compacted, 0)
		return err == nil && ok && at.At == 20
	})
}

func TestACoordinatorThatMovesCostsNothing(t *testing.T) {
	w := newWorld(t, 2)
	run := w.start("w1")
	eventually(t, "joined", func() bool { return len(run.Partitions()) == 2 })
	for i := range 5 {
		w.cluster.RehashCoordinators()
		content := fmt.Sprint("m", i)
		w.finished(w.send(0, "c", content), tasks.StatusCompleted)
		eventually(t, "committed", func() bool { return w.committed(0) == int64(i+1) })
		if n := w.model.called(content); n != 1 {
			t.Errorf("%s: %d calls", content, n)
		}
	}
}

func TestAPauseDoesNotOutliveTheAssignment(t *testing.T) {
	w := newWorld(t, 2)
	open := w.model.gate("m")
	defer open()
	small := func(c *consumer.Config) {
		c.MaxQueued, c.MaxInFlight, c.DrainTimeout = 4, 2, 100*time.Millisecond
		c.Kafka = append(c.Kafka, kgo.FetchMaxPartitionBytes(512))
	}
	var ids []uuid.UUID
	for i := range 60 {
		ids = append(ids, w.send(int32(i%2), fmt.Sprint(i), "m"))
	}
	first := w.start("w1", small)
	eventually(t, "both partitions are paused", func() bool {
		p := first.Partitions()
		return len(p) == 2 && p[0].Paused && p[1].Paused
	})
	second := w.start("w2", small)
	eventually(t, "one moves", func() bool { return len(first.Partitions()) == 1 && len(second.Partitions()) == 1 })
	second.shutdown(t)
	eventually(t, "it comes back", func() bool { return len(first.Partitions()) == 2 })
	open()
	for _, id := range ids {
		w.finished(id, tasks.StatusCompleted)
	}
}

func TestAPositionThatDoesNotMoveIsCommittedAgain(t *testing.T) {
	w := newWorld(t, 1)
	commits := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Group: group, Observe: true, Count: -1})
	w.start("w1", func(c *consumer.Config) { c.RecommitAfter = 50 * time.Millisecond })
	w.finished(w.send(0, "c", "m"), tasks.StatusCompleted)
	eventually(t, "it is committed again and again", func() bool { return commits.Hits() > 4 })
	if w.committed(0) != 1 {
		t.Errorf("committed %d", w.committed(0))
	}
}

func TestATopicThatIsMadeAnewIsReadFromItsStart(t *testing.T) {
	w := newWorld(t, 1)
	w.start("w1")
	for i := range 5 {
		w.finished(w.send(0, "c", fmt.Sprint("old", i)), tasks.StatusCompleted)
	}
	eventually(t, "committed", func() bool { return w.committed(0) == 5 })
	if err := errors.Join(w.cluster.DeleteTopic(topic), w.cluster.CreateTopic(topic, 1, nil)); err != nil {
		t.Fatal(err)
	}
	id := w.submit("c", "new")
	w.client.ForceMetadataRefresh()
	w.client.PurgeTopicsFromClient(topic)
	w.publish(0, "c", id)
	// The client says so only after some 13 seconds, and then on every poll.
	deadline := time.Now().Add(60 * time.Second)
	for w.task(id).Status != tasks.StatusCompleted && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	w.finished(id, tasks.StatusCompleted)
	eventually(t, "the new log's position is committed", func() bool { return w.committed(0) == 1 })
}
