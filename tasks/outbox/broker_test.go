package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/e2e/broker"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// realWorld is a database and a real broker.
func realWorld(t testing.TB, b *broker.Broker, partitions int) *world {
	t.Helper()
	return &world{t: t, pool: newPool(t), addrs: b.Addrs, topic: broker.Topic(t, b, partitions)}
}

func TestI3_OnARealBrokerADeletedTopicLosesNothing(t *testing.T) {
	deletedTopic(t, realWorld(t, broker.Shared(t), 6))
}

func TestI3_ABrokerThatIsKilledLosesNothing(t *testing.T) {
	b := broker.Start(t)
	w := realWorld(t, b, 6)
	w.start(w.config(postgres.NewOutbox(w.pool)))
	const conversations, messages = 50, 40
	order := map[string][]uuid.UUID{}
	submit := func(n int) {
		for range n {
			for i, id := range w.fill(conversations, conversations) {
				c := fmt.Sprint("c", i)
				order[c] = append(order[c], id)
			}
		}
	}
	submit(messages / 2)
	w.until("some are published", func() bool { return w.pending() < conversations*messages/2 })
	b.Kill()
	submit(messages / 2)
	b.Restart()
	w.emptied()
	w.reader().distinct(conversations * messages).inOrder(order)
}

func BenchmarkPublish(b *testing.B) {
	const rows = 200_000
	publish := func(b *testing.B, w *world) {
		for b.Loop() {
			b.StopTimer()
			w.fill(rows, 5000)
			begun := time.Now()
			b.StartTimer()
			config := w.config(postgres.NewOutbox(w.pool))
			config.SweepEvery = 0
			d := w.start(config)
			w.emptied()
			b.ReportMetric(rows/time.Since(begun).Seconds(), "rows/s")
			b.StopTimer()
			d.stop()
			b.StartTimer()
		}
	}
	b.Run("kfake", func(b *testing.B) { publish(b, newWorld(b)) })
	b.Run("kafka", func(b *testing.B) { publish(b, realWorld(b, broker.Shared(b), 12)) })
}
