package outbox_test

import (
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/outbox"
	"github.com/fencepost/fencepost/tasks/postgres"
)

func TestRecordIsAPointerWithKeyAndHeaders(t *testing.T) {
	w := newWorld(t)
	id := uuid.Must(uuid.NewV7())
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var accepted time.Time
	err := w.pool.QueryRow(t.Context(), insertHandoff+" returning accepted_at",
		tasks.Shard("acme", "room/7"), id, "acme", "room/7", trace).Scan(&accepted)
	if err != nil {
		t.Fatal(err)
	}
	w.start(w.config(postgres.NewOutbox(w.pool)))
	rec := w.reader().distinct(1).records[0]
	if got := string(rec.Key); got != "acme/room/7" {
		t.Errorf("key %q", got)
	}
	if got, want := string(rec.Value), fmt.Sprintf(`{"v":1,"task":"%s","workspace":"acme"}`, id); got != want {
		t.Errorf("value %s, want %s", got, want)
	}
	want := map[string]string{"traceparent": trace, "fencepost-accepted-at": accepted.UTC().Format(time.RFC3339Nano)}
	for _, h := range rec.Headers {
		if want[h.Key] != string(h.Value) {
			t.Errorf("header %s: %q, want %q", h.Key, h.Value, want[h.Key])
		}
		delete(want, h.Key)
	}
	if len(want) > 0 {
		t.Errorf("headers missing: %v", want)
	}
	// The partition is what any client makes of the key.
	var p int32
	part := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	if p = int32(part.Partition(rec, 6)); p != rec.Partition {
		t.Errorf("partition %d, want %d", rec.Partition, p)
	}
}

func TestI3_EveryHandoffIsPublishedAndDeleted(t *testing.T) {
	w := newWorld(t)
	const n = 5000
	w.fill(n, 700)
	for range 2 {
		w.start(w.config(postgres.NewOutbox(w.pool)))
	}
	w.reader().distinct(n)
	w.emptied()
}

func TestOneDispatcherPublishesOnce(t *testing.T) {
	w := newWorld(t)
	const n = 3000
	w.fill(n, 50)
	config := w.config(postgres.NewOutbox(w.pool))
	config.BatchSize, config.SweepEvery = 100, time.Millisecond
	d := w.start(config)
	w.emptied()
	d.stop()
	if r := w.reader().distinct(n); len(r.records) != n {
		t.Errorf("%d records for %d handoffs", len(r.records), n)
	}
}

func TestI3_OrderHoldsWhileDispatchersComeAndGo(t *testing.T) {
	w := newWorld(t)
	const writers, messages = 8, 60
	conversations := map[string][]uuid.UUID{}
	for i := range writers {
		conversations[fmt.Sprint("c", i)] = make([]uuid.UUID, messages)
	}
	var submitting sync.WaitGroup
	for c, ids := range conversations {
		submitting.Go(func() {
			for i := range ids {
				tx, err := w.pool.Begin(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = w.submitIn(tx, c)
				time.Sleep(rand.N(15 * time.Millisecond)) // ids and commits fall out of step
				if err := tx.Commit(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	over := make(chan struct{})
	var churning sync.WaitGroup
	for range 4 {
		churning.Go(func() {
			for {
				store := w.faulty()
				config := w.config(store)
				config.Lease, config.DrainTimeout = 300*time.Millisecond, 200*time.Millisecond
				d := w.start(config)
				select {
				case <-over:
					d.stop()
					return
				case <-time.After(50*time.Millisecond + rand.N(300*time.Millisecond)):
				}
				store.dead.Store(rand.N(2) == 0) // half of them crash
				d.stop()
			}
		})
	}
	submitting.Wait()
	r := w.reader().distinct(writers * messages)
	w.emptied()
	close(over)
	churning.Wait()
	r.inOrder(conversations)
	t.Logf("%d records for %d handoffs", len(r.records), writers*messages)
}

func TestI3_ALateCommitKeepsItsPlaceInItsConversation(t *testing.T) {
	w := newWorld(t)
	w.start(w.config(postgres.NewOutbox(w.pool)))
	r := w.reader()
	// Two conversations of one shard.
	a, b := "a", ""
	for i := 0; b == ""; i++ {
		if c := fmt.Sprint("b", i); tasks.Shard("w", c) == tasks.Shard("w", a) {
			b = c
		}
	}
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := w.submitIn(tx, a) // draws the lower id
	w.submit(b)
	r.distinct(1) // the dispatcher has read past it
	w.emptied()
	w.submit(b)
	r.distinct(2)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := w.submit(a)
	r.distinct(4).inOrder(map[string][]uuid.UUID{a: {first, second}})
}

func TestI3_ASweepFindsWhatIsLaterThanReadsLookFor(t *testing.T) {
	w := newWorld(t)
	store := w.faulty()
	store.blind.Store(true) // reads go on from the last id they saw
	config := w.config(store)
	config.SweepEvery = 50 * time.Millisecond
	w.start(config)
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := w.submitIn(tx, "c1")
	w.fill(100, 100)
	r := w.reader().distinct(100)
	w.emptied()
	w.fill(100, 100)
	r.distinct(200)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.distinct(201); r.tasks[200] != late {
		t.Error("another record than the late one")
	}
	w.emptied()
}

func TestI3_ACrashBetweenAcknowledgementAndDeleteLosesNothing(t *testing.T) {
	w := newWorld(t)
	const n = 300
	w.fill(n, 40)
	store := w.faulty()
	store.noDelete.Store(true)
	crashed := w.start(w.config(store))
	r := w.reader().distinct(n)
	if w.pending() != n {
		t.Fatalf("%d handoffs left, want all %d", w.pending(), n)
	}
	store.dead.Store(true)
	crashed.stop()
	w.start(w.config(postgres.NewOutbox(w.pool))) // takes over when the lease has ended
	w.emptied()
	if r.distinct(n); len(r.tasks) != n {
		t.Errorf("%d tasks published, want %d", len(r.tasks), n)
	}
}

func TestARefusedRecordHoldsUpItsConversationOnly(t *testing.T) {
	w := newWorld(t)
	// The topic takes no batch of more than 3 kB; the refused conversation's name alone has more, also compressed.
	setTopic(t, w, "max.message.bytes", "3000")
	var poison string
	for len(poison) < 8000 {
		poison += crand.Text()
	}
	var others []uuid.UUID
	w.submit(poison)
	for i := range 200 {
		others = append(others, w.submit(fmt.Sprint("c", i)))
		if i == 100 {
			w.submit(poison)
		}
	}
	config := w.config(postgres.NewOutbox(w.pool))
	d := w.start(config)
	w.reader().distinct(len(others))
	w.until("all but the refused are deleted", func() bool { return w.pending() == 2 })
	if err := d.Ready(); err != nil {
		t.Errorf("not ready because of a refused record: %v", err)
	}
	// Once the topic takes it, so does the conversation go on.
	setTopic(t, w, "max.message.bytes", "1000000")
	w.emptied()
}

func TestADelayedHandoffIsPublishedWhenItIsDue(t *testing.T) {
	w := newWorld(t)
	submission := tasks.Submission{
		Workspace: "w", Operation: tasks.OperationMessage, Key: "k", Retention: time.Hour,
		TaskID: uuid.Must(uuid.NewV7()), MessageID: uuid.Must(uuid.NewV7()), Conversation: "c", Kind: tasks.KindReply,
		Request: tasks.Request{Content: "hello", Model: "m"}, MaxAttempts: 1, MaxInterruptions: 1,
		DeadlineAfter: time.Hour, OnAmbiguous: tasks.AmbiguousRetry,
	}
	if out, err := postgres.NewStore(w.pool).Submit(t.Context(), []tasks.Submission{submission}); err != nil || out[0].Err != nil {
		t.Fatal(err, out)
	}
	w.start(w.config(postgres.NewOutbox(w.pool)))
	w.emptied()
	var due time.Time
	err := w.pool.QueryRow(t.Context(), `insert into delayed_handoffs (task_id, workspace, due_at)
		values ($1, 'w', clock_timestamp() + interval '700 milliseconds') returning due_at`, submission.TaskID).Scan(&due)
	if err != nil {
		t.Fatal(err)
	}
	w.until("it is published", func() bool {
		var waiting, reached bool
		err := w.pool.QueryRow(t.Context(), `select exists (select from delayed_handoffs), clock_timestamp() >= $1`, due).Scan(&waiting, &reached)
		if err != nil {
			t.Fatal(err)
		}
		if !waiting && !reached {
			t.Fatal("before its time")
		}
		return !waiting
	})
	w.emptied()
	r := w.reader()
	w.until("both records are there", func() bool { r.poll(); return len(r.records) == 2 })
}

func TestStopDrainsAndGivesTheShardsUp(t *testing.T) {
	w := newWorld(t)
	w.fill(2000, 300)
	config := w.config(postgres.NewOutbox(w.pool))
	config.Lease = time.Minute
	d := w.start(config)
	w.until("some are published", func() bool { return w.pending() < 2000 })
	d.stop()
	var held int
	err := w.pool.QueryRow(t.Context(), "select (select count(*) from outbox_shards where owner is not null) + (select count(*) from dispatchers)").Scan(&held)
	if err != nil || held != 0 {
		t.Errorf("%d leases left after the stop, %v", held, err)
	}
	w.start(w.config(postgres.NewOutbox(w.pool)))
	w.emptied()
}

func TestAWakeWhileAReadRunsIsNotLost(t *testing.T) {
	w := newWorld(t)
	store := w.faulty()
	config := w.config(store)
	config.PollMin, config.PollMax = time.Hour, time.Hour // only hints
	next := store.holdRead()
	d := w.start(config)
	r := w.reader()
	for i := range 20 {
		w.await(next.looked)
		w.submit(fmt.Sprint("c", i))
		d.Wake()
		now := next
		next = store.holdRead()
		close(now.goOn)
		// The hint's own read finds it, and the next round's is asked for.
		w.await(next.looked)
		now, next = next, store.holdRead()
		close(now.goOn)
		r.distinct(i + 1)
		d.Wake()
	}
}

func TestNewRefusesAnUnusableConfig(t *testing.T) {
	for name, config := range map[string]outbox.Config{
		"empty":   {},
		"options": {Store: &faulty{}, Topic: "t", Kafka: []kgo.Opt{kgo.SeedBrokers("x:1"), kgo.ConnIdleTimeout(time.Nanosecond)}},
	} {
		if _, err := outbox.New(config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
