package bench

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/e2e/broker"
	"github.com/fencepost/fencepost/offsets/kafka"
)

// BenchmarkPath measures the worker's whole path: records that are in Kafka already, through claim, a model without
// latency and settle, until the last position is committed. Real Kafka, real Postgres with fsync, one worker process.
//
//	go test -run '^$' -bench Path -benchtime 100000x
func BenchmarkPath(b *testing.B) {
	kafkaBroker := broker.Start(b)
	topic := broker.Topic(b, kafkaBroker, 12)
	store := openStore(b, database(b))
	all := fill(b, store, b.N, max(1, b.N/10))
	publish(b, kafkaBroker, topic, all)
	run, err := consumer.New(consumer.Config{
		Kafka: []kgo.Opt{kgo.SeedBrokers(kafkaBroker.Addrs...)}, Topic: topic, Group: "bench", Worker: "bench",
		MaxInFlight: 1024, Logger: slog.New(slog.DiscardHandler),
	}, store, echo{}, kafka.New(kafka.Config{Group: "bench"}))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(b.Context())
	done := make(chan error, 1)
	b.ResetTimer()
	go func() { done <- run.Run(ctx) }()
	for committed(run) < int64(b.N) {
		select {
		case err := <-done:
			b.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	cancel(errors.New("measured"))
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	var replies int
	if err := store.Pool().QueryRow(b.Context(), "select count(*) from replies").Scan(&replies); err != nil || replies != b.N {
		b.Fatalf("%d replies for %d tasks (%v)", replies, b.N, err)
	}
}

func committed(run *consumer.Consumer) (sum int64) {
	for _, p := range run.Partitions() {
		sum += max(0, p.Committed)
	}
	return sum
}
