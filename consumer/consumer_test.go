package consumer_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

func TestI1_RecordTwiceOneReplyOneCall(t *testing.T) {
	w := newWorld(t, 1)
	id := w.send(0, "c", "hello")
	w.publish(0, "c", id)
	w.start("w1")
	w.finished(id, tasks.StatusCompleted)
	eventually(t, "both records are committed", func() bool { return w.committed(0) == 2 })
	if n := w.model.called("hello"); n != 1 {
		t.Errorf("%d calls for one task", n)
	}
	if task := w.task(id); task.Reply == nil || task.Reply.Text != "re: hello" || task.Attempts != 1 {
		t.Errorf("task %+v", task)
	}
}

func TestI2_PositionStaysAtTheFirstUnfinishedRecord(t *testing.T) {
	w := newWorld(t, 1)
	open := w.model.gate("slow")
	defer open()
	first := w.send(0, "a", "before")
	slow := w.send(0, "b", "slow")
	var rest []uuid.UUID
	for i := range 50 {
		rest = append(rest, w.send(0, fmt.Sprintf("c%d", i), "fast"))
	}
	run := w.start("w1")
	for _, id := range append(rest, first) {
		w.finished(id, tasks.StatusCompleted)
	}
	eventually(t, "the record before the slow one is committed", func() bool { return w.committed(0) == 1 })
	eventually(t, "what is settled ahead shows", func() bool {
		p := run.Partitions()
		return len(p) == 1 && p[0].Position == 1 && p[0].SettledAhead == 50 && p[0].InFlight == 1 && p[0].Head == 1
	})
	if got := w.committed(0); got != 1 {
		t.Fatalf("committed %d while record 1 is unfinished", got)
	}
	open()
	w.finished(slow, tasks.StatusCompleted)
	eventually(t, "all is committed", func() bool { return w.committed(0) == 52 })
}

func TestConversationInOrderOthersAtOnce(t *testing.T) {
	w := newWorld(t, 1)
	open := w.model.gate("a1")
	defer open()
	a1, a2, a3 := w.send(0, "a", "a1"), w.send(0, "a", "a2"), w.send(0, "a", "a3")
	b1, b2 := w.send(0, "b", "b1"), w.send(0, "b", "b2")
	w.start("w1")
	w.finished(b1, tasks.StatusCompleted)
	w.finished(b2, tasks.StatusCompleted)
	if w.model.called("a2") != 0 {
		t.Fatal("a2 was begun before a1 was done")
	}
	open()
	for _, id := range []uuid.UUID{a1, a2, a3} {
		w.finished(id, tasks.StatusCompleted)
	}
	var got []string
	for _, c := range w.model.sequence() {
		if strings.HasPrefix(c, "a") {
			got = append(got, c)
		}
	}
	if !slices.Equal(got, []string{"a1", "a2", "a3"}) {
		t.Errorf("order %v", got)
	}
}

func TestOrderNoneStartsAllAtOnce(t *testing.T) {
	w := newWorld(t, 1)
	open := w.model.gate("same")
	defer open()
	for range 5 {
		w.send(0, "a", "same")
	}
	w.start("w1", func(c *consumer.Config) { c.Order = consumer.OrderNone })
	eventually(t, "five calls of one conversation are open", func() bool { return w.model.open.Load() == 5 })
}

func TestMaxInFlightBoundsCalls(t *testing.T) {
	w := newWorld(t, 4)
	open := w.model.gate("x")
	defer open()
	var ids []uuid.UUID
	for i := range 40 {
		ids = append(ids, w.send(int32(i%4), fmt.Sprint(i), "x"))
	}
	w.start("w1", func(c *consumer.Config) { c.MaxInFlight = 7 })
	eventually(t, "all slots are taken", func() bool { return w.model.open.Load() == 7 })
	running := 0
	for _, id := range ids {
		if w.task(id).Status == tasks.StatusRunning {
			running++
		}
	}
	if running != 7 {
		t.Errorf("%d tasks claimed for 7 slots", running)
	}
	open()
	for _, id := range ids {
		w.finished(id, tasks.StatusCompleted)
	}
}

func TestUnreadableAndUnknownAreDeadLetteredAndThePartitionGoesOn(t *testing.T) {
	w := newWorld(t, 1)
	unknown := uuid.Must(uuid.NewV7())
	other := w.submit("theirs", "theirs", func(s *tasks.Submission) { s.Workspace = "other" })
	bad := []string{"", "garbage", `{"v":1}`, `{"v":2,"task":"` + unknown.String() + `","workspace":"acme"}`, "\xff\x00", strings.Repeat("x", 10_000),
		`{"v":1,"task":"` + unknown.String() + `","workspace":"acme"}`,
		`{"v":1,"task":"` + other.String() + `","workspace":"acme"}`}
	for i, v := range bad {
		w.produce(0, fmt.Sprintf("key-%d", i), v)
	}
	id := w.send(0, "c", "good")
	w.start("w1")
	w.finished(id, tasks.StatusCompleted)
	eventually(t, "all is committed", func() bool { return w.committed(0) == int64(len(bad))+1 })

	reader, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ConsumeTopics(topic+".dlq"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	seen := map[string]string{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(seen) < len(bad) && ctx.Err() == nil {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			h := map[string]string{}
			for _, x := range r.Headers {
				h[x.Key] = string(x.Value)
			}
			if _, twice := seen[h["fencepost-dlq-offset"]]; twice {
				t.Errorf("offset %s dead-lettered twice", h["fencepost-dlq-offset"])
			}
			seen[h["fencepost-dlq-offset"]] = h["fencepost-dlq-reason"]
			var i int
			fmt.Sscan(h["fencepost-dlq-offset"], &i)
			if string(r.Value) != bad[i] || string(r.Key) != fmt.Sprintf("key-%d", i) || h["fencepost-dlq-topic"] != topic || h["fencepost-dlq-partition"] != "0" || h["fencepost-dlq-time"] == "" {
				t.Errorf("dead letter %d: key %q, value %q, headers %v", i, r.Key, r.Value, h)
			}
		})
	}
	for i := range bad {
		want := "unreadable"
		if i >= 6 {
			want = "unknown_task"
		}
		if got := seen[fmt.Sprint(i)]; got != want {
			t.Errorf("record %d: reason %q, want %q", i, got, want)
		}
	}
}

// A record may be as large as its topic takes, compressed; the dead letter of one must not hold its partition for ever.
func TestALargeUnreadableRecordIsDeadLetteredWithoutItsValue(t *testing.T) {
	w := newWorld(t, 1)
	large, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ProducerBatchMaxBytes(8<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	for _, value := range [][]byte{nil, bytes.Repeat([]byte("x"), 2<<20)} {
		if err := large.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("key"), Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	id := w.send(0, "c", "good")
	w.start("w1")
	w.finished(id, tasks.StatusCompleted)
	eventually(t, "all is committed", func() bool { return w.committed(0) == 3 })

	reader, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ConsumeTopics(topic+".dlq"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var letters []*kgo.Record
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(letters) < 2 && ctx.Err() == nil {
		letters = append(letters, reader.PollRecords(ctx, 2).Records()...)
	}
	if len(letters) != 2 {
		t.Fatalf("%d dead letters", len(letters))
	}
	if l := letters[0]; l.Value != nil || string(l.Key) != "key" || len(l.Headers) != 5 {
		t.Errorf("dead letter of a null value: key %q, value %q, headers %v", l.Key, l.Value, l.Headers)
	}
	if l := letters[1]; l.Value != nil || len(l.Headers) != 6 || string(l.Headers[5].Value) != "a key of 3 and a value of 2097152 bytes" {
		t.Errorf("dead letter of a large record: key %q, %d bytes, headers %v", l.Key, len(l.Value), l.Headers)
	}
}

func TestRecordWithoutKeyIsWorked(t *testing.T) {
	w := newWorld(t, 1)
	id := w.submit("c", "keyless")
	rec := &kgo.Record{Topic: topic, Value: []byte(`{"v":1,"task":"` + id.String() + `","workspace":"acme","later":"field"}`)}
	if err := w.client.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.start("w1")
	w.finished(id, tasks.StatusCompleted)
}

func TestRetriesWithinTheBudget(t *testing.T) {
	for name, tc := range map[string]struct {
		class  llm.Class
		stop   bool
		status tasks.Status
		calls  int
		failed string
	}{
		"overloaded twice":         {class: llm.Overloaded, status: tasks.StatusCompleted, calls: 3},
		"rate limited twice":       {class: llm.RateLimited, status: tasks.StatusCompleted, calls: 3},
		"not sent twice":           {class: llm.NotSent, status: tasks.StatusCompleted, calls: 3},
		"ambiguous twice":          {class: llm.Ambiguous, status: tasks.StatusCompleted, calls: 3},
		"ambiguous, stop":          {class: llm.Ambiguous, stop: true, status: tasks.StatusFailed, calls: 1, failed: "ambiguous"},
		"permanent":                {class: llm.Permanent, status: tasks.StatusFailed, calls: 1, failed: "permanent"},
		"quota":                    {class: llm.Quota, status: tasks.StatusFailed, calls: 1, failed: "quota"},
		"an answer not acceptable": {class: llm.RejectedOutput, status: tasks.StatusFailed, calls: 1, failed: "rejected_output"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.model.on("m", func(_ context.Context, n int) (llm.Answer, error) {
				if n < 3 {
					return fails(tc.class, 0)
				}
				return answer("at last"), nil
			})
			id := w.send(0, "c", "m", func(s *tasks.Submission) {
				if tc.stop {
					s.OnAmbiguous = tasks.AmbiguousStop
				}
			})
			w.start("w1")
			w.finished(id, tc.status)
			task := w.task(id)
			if n := w.model.called("m"); n != tc.calls || task.Attempts != tc.calls {
				t.Errorf("%d calls, %d attempts, want %d", n, task.Attempts, tc.calls)
			}
			if tc.failed != "" && (task.Failure == nil || task.Failure.Class != tc.failed) {
				t.Errorf("failure %+v", task.Failure)
			}
			eventually(t, "the record is committed", func() bool { return w.committed(0) == 1 })
		})
	}
}

func TestI5_BudgetEnds(t *testing.T) {
	w := newWorld(t, 1)
	w.model.on("m", func(context.Context, int) (llm.Answer, error) { return fails(llm.Ambiguous, 0) })
	id := w.send(0, "c", "m")
	for range 5 {
		w.publish(0, "c", id) // redelivery refreshes nothing
	}
	w.start("w1")
	w.finished(id, tasks.StatusFailed)
	eventually(t, "all records are committed", func() bool { return w.committed(0) == 6 })
	if n := w.model.called("m"); n != 3 {
		t.Errorf("%d calls with a budget of 3", n)
	}
	if task := w.task(id); task.Failure == nil || task.Failure.Class != "ambiguous" || task.Failure.Attempt != 3 {
		t.Errorf("failure %+v", task.Failure)
	}
}

func TestLongRetryAfterIsHandedOff(t *testing.T) {
	w := newWorld(t, 1)
	w.model.on("m", func(context.Context, int) (llm.Answer, error) { return fails(llm.RateLimited, 30*time.Second) })
	id := w.send(0, "c", "m")
	next := w.send(0, "c", "next")
	w.start("w1", func(c *consumer.Config) { c.ParkMax = 5 * time.Second })
	w.finished(next, tasks.StatusCompleted)
	eventually(t, "the record of the task that waits is settled", func() bool { return w.committed(0) == 2 })
	if task := w.task(id); task.Status != tasks.StatusQueued || time.Until(task.AvailableAt) < 20*time.Second {
		t.Errorf("task %+v", task)
	}
	if n, err := w.store.Outbox().Promote(t.Context(), 10); err != nil || n != 0 {
		t.Errorf("promoted %d before it is due (%v)", n, err)
	}
}

func TestDeadlineEndsACall(t *testing.T) {
	w := newWorld(t, 1)
	defer w.model.gate("m")()
	id := w.send(0, "c", "m", func(s *tasks.Submission) { s.DeadlineAfter = 300 * time.Millisecond })
	w.start("w1")
	w.finished(id, tasks.StatusFailed)
	if task := w.task(id); task.Failure == nil || task.Failure.Class != tasks.ClassDeadline {
		t.Errorf("failure %+v", task.Failure)
	}
}

func TestPanicOfTheProviderIsOneFailedAttempt(t *testing.T) {
	w := newWorld(t, 1)
	w.model.on("m", func(_ context.Context, n int) (llm.Answer, error) {
		if n == 1 {
			panic("boom")
		}
		return answer("fine"), nil
	})
	id := w.send(0, "c", "m")
	w.start("w1")
	w.finished(id, tasks.StatusCompleted)
	if w.task(id).Attempts != 2 {
		t.Errorf("attempts %d", w.task(id).Attempts)
	}
}
