package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/offsets/kafka"
	"github.com/fencepost/fencepost/tasks"
)

// slow is a model that takes a moment and counts the calls for each message.
type slow struct {
	mu    sync.Mutex
	calls map[string]int
}

func (m *slow) Name() string { return "slow" }

func (m *slow) Call(ctx context.Context, r llm.Request) (llm.Answer, error) {
	m.mu.Lock()
	m.calls[r.Content]++
	m.mu.Unlock()
	select {
	case <-time.After(5 * time.Millisecond):
	case <-ctx.Done():
		return llm.Answer{}, &llm.Failure{Class: llm.Cancelled, Message: "cancelled", Err: context.Cause(ctx), Report: llm.Report{WireRequests: 1}}
	}
	return llm.Answer{Text: "re: " + r.Content, FinishReason: "stop", Report: llm.Report{WireRequests: 1}}, nil
}

// work starts a worker of the group.
func (w *recovering) work(model llm.Provider) (stop func()) {
	w.t.Helper()
	config := w.config(nil)
	c, err := consumer.New(consumer.Config{
		Kafka: config.Kafka, Topic: w.topic, Group: w.group, Worker: uuid.NewString(), MaxInFlight: 4, Logger: slog.New(slog.DiscardHandler),
		Lease: 2 * time.Second, CommitInterval: 20 * time.Millisecond, SessionTimeout: 6 * time.Second,
	}, w.store, model, kafka.New(kafka.Config{Group: w.group, Logger: slog.New(slog.DiscardHandler)}))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel(errors.New("the test stops it"))
		if err := <-ended; err != nil {
			w.t.Errorf("worker: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *recovering) ended() int {
	w.t.Helper()
	var n int
	if err := w.pool.QueryRow(w.t.Context(), `select count(*) from reply_tasks where status = 'completed'`).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// TestI3_TasksOfADeletedTopicComplete deletes the topic under dispatchers and workers that run.
func TestI3_TasksOfADeletedTopicComplete(t *testing.T) {
	eachBroker(t, func(t *testing.T, w *recovering) {
		model := &slow{calls: map[string]int{}}
		w.dispatch()
		w.work(model)
		all := w.tasks(1500)
		w.until("some are done", func() bool { return w.ended() > 100 })
		w.emptied()
		w.recreate(3)
		w.until("all are done", func() bool { return w.ended() == len(all) })
		for _, id := range all {
			task, err := w.store.Task(t.Context(), "w", id)
			if err != nil || task.Status != tasks.StatusCompleted || task.Reply == nil {
				t.Fatal(task, err)
			}
			if n := model.calls[id.String()]; n != task.Attempts || n > 2 {
				t.Errorf("%d calls in %d attempts", n, task.Attempts)
			}
		}
	})
}
