package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/offsets"
	"github.com/fencepost/fencepost/offsets/kafka"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

const (
	topic     = "reply-tasks"
	group     = "fencepost"
	workspace = "acme"
)

// world is a broker, a store and a model, and what went over the wire between the group and the broker.
type world struct {
	t       *testing.T
	cluster *kfake.Cluster
	store   *memory.Store
	tasks   tasks.Store // what the workers use: store, unless the test is about another
	model   *model
	client  *kgo.Client // producer and observer
	admin   *kadm.Client

	protocol consumer.Protocol // of the workers

	mu         sync.Mutex
	storeCalls map[string]int
}

func newWorld(t *testing.T, partitions int32) *world {
	t.Helper()
	return newWorldWith(t, partitions, memory.Config{})
}

func newWorldWith(t *testing.T, partitions int32, cfg memory.Config) *world {
	t.Helper()
	t.Parallel() // they wait more than they work
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic), kfake.SeedTopics(1, topic+".dlq"),
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "1000", "group.consumer.heartbeat.interval.ms": "200"}))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, cluster: cluster, model: newModel(), client: client, admin: kadm.NewClient(client), storeCalls: map[string]int{}}
	fault := cfg.Fault
	cfg.Fault = func(method string, committed bool) error {
		w.mu.Lock()
		if !committed {
			w.storeCalls[method]++
		}
		w.mu.Unlock()
		if fault != nil {
			return fault(method, committed)
		}
		return nil
	}
	w.store = memory.New(cfg)
	w.tasks = w.store
	t.Cleanup(func() { client.Close(); cluster.Close() })
	return w
}

// protocols runs a test under both group protocols.
func protocols(t *testing.T, partitions int32, test func(t *testing.T, w *world)) {
	for _, p := range []consumer.Protocol{consumer.ProtocolClassic, consumer.ProtocolConsumer} {
		t.Run(string(p), func(t *testing.T) {
			w := newWorld(t, partitions)
			w.protocol = p
			test(t, w)
		})
	}
}

// submit stores one task and returns it; publish makes its record.
func (w *world) submit(conversation, content string, change ...func(*tasks.Submission)) uuid.UUID {
	w.t.Helper()
	s := tasks.Submission{
		Workspace: workspace, Operation: tasks.OperationMessage, Key: uuid.NewString(), Retention: time.Hour,
		TaskID: uuid.Must(uuid.NewV7()), MessageID: uuid.Must(uuid.NewV7()), Conversation: conversation, Kind: tasks.KindReply,
		Request:     tasks.Request{Content: content, Model: "sim"},
		MaxAttempts: 3, MaxInterruptions: 3, DeadlineAfter: time.Minute, OnAmbiguous: tasks.AmbiguousRetry,
	}
	for _, f := range change {
		f(&s)
	}
	s.Fingerprint = s.ComputeFingerprint()
	got, err := w.tasks.Submit(w.t.Context(), []tasks.Submission{s})
	if err != nil || got[0].Err != nil {
		w.t.Fatal(err, got)
	}
	return got[0].TaskID
}

func (w *world) publish(partition int32, conversation string, id uuid.UUID) {
	w.t.Helper()
	value, _ := json.Marshal(map[string]any{"v": 1, "task": id, "workspace": workspace})
	w.produce(partition, workspace+"/"+conversation, string(value))
}

func (w *world) produce(partition int32, key, value string) {
	w.t.Helper()
	rec := &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: []byte(value)}
	if err := w.client.ProduceSync(w.t.Context(), rec).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// send submits and publishes.
func (w *world) send(partition int32, conversation, content string, change ...func(*tasks.Submission)) uuid.UUID {
	id := w.submit(conversation, content, change...)
	w.publish(partition, conversation, id)
	return id
}

func (w *world) task(id uuid.UUID) tasks.Task {
	w.t.Helper()
	task, err := w.tasks.Task(w.t.Context(), workspace, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return task
}

func (w *world) committed(partition int32) int64 {
	offsets, err := w.admin.FetchOffsets(context.Background(), group)
	if err != nil {
		return -1
	}
	o, ok := offsets.Lookup(topic, partition)
	if !ok {
		return -1
	}
	return o.At
}

func (w *world) metadata(partition int32) string {
	committed, err := w.admin.FetchOffsets(context.Background(), group)
	if err != nil {
		return ""
	}
	o, _ := committed.Lookup(topic, partition)
	return o.Metadata
}

func (w *world) ahead(partition int32) []offsets.Run {
	runs, _ := offsets.DecodeRuns(w.committed(partition), w.metadata(partition))
	return runs
}

// counted is how often the store was called since it had been called n times.
func (w *world) counted(method string, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.storeCalls[method] - n
}

// worker is a running consumer.
type worker struct {
	*consumer.Consumer
	stop func(error)
	done chan error
}

func (w *world) start(name string, change ...func(*consumer.Config)) *worker {
	w.t.Helper()
	return w.startWith(w.model, name, change...)
}

func (w *world) startWith(provider llm.Provider, name string, change ...func(*consumer.Config)) *worker {
	w.t.Helper()
	cfg := consumer.Config{
		Kafka: []kgo.Opt{kgo.SeedBrokers(w.cluster.ListenAddrs()...)},
		Topic: topic, Group: group, Worker: name, Protocol: w.protocol,
		Lease: 2 * time.Second, CommitInterval: 20 * time.Millisecond,
		SessionTimeout: 3 * time.Second, RebalanceTimeout: 20 * time.Second, DrainTimeout: 10 * time.Second,
		Retry:  tasks.RetryPolicy{Base: 10 * time.Millisecond, Max: 20 * time.Millisecond},
		Logger: slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})).With("worker", name),
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := consumer.New(cfg, w.tasks, provider, kafka.New(kafka.Config{Group: group, Logger: cfg.Logger}))
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	run := &worker{Consumer: c, stop: cancel, done: make(chan error, 1)}
	go func() { run.done <- c.Run(ctx) }()
	w.t.Cleanup(func() { run.shutdown(w.t) })
	return run
}

func (r *worker) shutdown(t *testing.T) {
	t.Helper()
	r.stop(errors.New("test is over"))
	select {
	case err, ok := <-r.done:
		if ok {
			close(r.done)
		}
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(40 * time.Second):
		t.Fatal("the worker does not stop")
	}
}

// eventually waits for a condition; what it waits for must come by itself.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (w *world) finished(id uuid.UUID, status tasks.Status) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("task is %s", status), func() bool { return w.task(id).Status == status })
}

// model is a provider that a test scripts by content, and that counts calls: the ledger outside the product.
type model struct {
	mu     sync.Mutex
	calls  map[string]int
	order  []string
	open   atomic.Int64
	script map[string]func(ctx context.Context, n int) (llm.Answer, error)
}

func newModel() *model {
	return &model{calls: map[string]int{}, script: map[string]func(context.Context, int) (llm.Answer, error){}}
}

func (m *model) Name() string { return "model" }

func (m *model) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	m.open.Add(1)
	defer m.open.Add(-1)
	m.mu.Lock()
	m.calls[req.Content]++
	n := m.calls[req.Content]
	m.order = append(m.order, req.Content)
	f := m.script[req.Content]
	m.mu.Unlock()
	if f != nil {
		return f(ctx, n)
	}
	return answer("re: " + req.Content), nil
}

func (m *model) on(content string, f func(ctx context.Context, n int) (llm.Answer, error)) {
	m.mu.Lock()
	m.script[content] = f
	m.mu.Unlock()
}

// gate makes calls for content wait until the returned function is called, or their context ends.
func (m *model) gate(content string) (open func()) {
	ch := make(chan struct{})
	m.on(content, func(ctx context.Context, _ int) (llm.Answer, error) {
		select {
		case <-ch:
			return answer("re: " + content), nil
		case <-ctx.Done():
			return llm.Answer{}, &llm.Failure{Class: llm.Cancelled, Message: "cancelled", Err: context.Cause(ctx), Report: llm.Report{WireRequests: 1}}
		}
	})
	return sync.OnceFunc(func() { close(ch) })
}

func (m *model) called(content string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[content]
}

func (m *model) sequence() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.order...)
}

func answer(text string) llm.Answer {
	return llm.Answer{Text: text, FinishReason: "stop", Report: llm.Report{WireRequests: 1, Usage: &llm.Usage{InputTokens: 3, OutputTokens: 5}}}
}

func fails(class llm.Class, after time.Duration) (llm.Answer, error) {
	return llm.Answer{}, &llm.Failure{Class: class, Message: "scripted", RetryAfter: after, Report: llm.Report{WireRequests: 1}}
}
