package bench

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/e2e/broker"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
	"github.com/fencepost/fencepost/tasks/postgres/embedded"
)

// server is the Postgres of all benchmarks: private, with fsync, on the machine's own disk.
var server = sync.OnceValues(func() (s *embedded.Server, err error) {
	serverStarted = true
	if serverDir, err = os.MkdirTemp("", "fencepost-bench-"); err != nil {
		return nil, err
	}
	return embedded.Start(context.Background(), embedded.Config{DataDir: serverDir, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "4GB", "max_connections": "200",
	}})
})

var (
	serverStarted bool
	serverDir     string
)

// database returns the URL of a fresh, migrated database.
func database(b *testing.B) string {
	b.Helper()
	s, err := server()
	if err != nil {
		b.Fatal(err)
	}
	name := "bench_" + uuid.NewString()[:8]
	admin, err := postgres.Open(b.Context(), postgres.Config{URL: s.URL("postgres")})
	if err != nil {
		b.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Pool().Exec(b.Context(), "create database "+name); err != nil {
		b.Fatal(err)
	}
	if _, err := migrations.Up(b.Context(), s.URL(name)); err != nil {
		b.Fatal(err)
	}
	return s.URL(name)
}

func openStore(b *testing.B, url string) *postgres.Store {
	b.Helper()
	store, err := postgres.Open(b.Context(), postgres.Config{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(store.Close)
	return store
}

const (
	workspace = "bench"
	question  = 600  // bytes a message
	answered  = 1000 // bytes a reply
)

// submission is one message of 600 bytes in one of the given number of conversations.
func submission(i, conversations int) tasks.Submission {
	s := tasks.Submission{
		Workspace: workspace, Operation: tasks.OperationMessage, Key: fmt.Sprint("key-", i), Retention: time.Hour,
		TaskID: uuid.Must(uuid.NewV7()), MessageID: uuid.Must(uuid.NewV7()),
		Conversation: fmt.Sprint("conversation-", i%conversations), Kind: tasks.KindReply,
		Request:     tasks.Request{Content: text(question), Model: "sim"},
		MaxAttempts: 3, MaxInterruptions: 3, DeadlineAfter: time.Hour, OnAmbiguous: tasks.AmbiguousRetry,
	}
	s.Fingerprint = s.ComputeFingerprint()
	return s
}

// fill stores n submissions and returns them.
func fill(b *testing.B, store *postgres.Store, n, conversations int) []tasks.Submission {
	b.Helper()
	all := make([]tasks.Submission, 0, n)
	for len(all) < n {
		batch := make([]tasks.Submission, 0, 500)
		for range min(500, n-len(all)) {
			batch = append(batch, submission(len(all)+len(batch), conversations))
		}
		if _, err := store.Submit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		all = append(all, batch...)
	}
	if _, err := store.Pool().Exec(b.Context(), "vacuum analyze"); err != nil {
		b.Fatal(err)
	}
	return all
}

// publish makes the record of each submission, as the dispatcher would.
func publish(b *testing.B, broker *broker.Broker, topic string, all []tasks.Submission) {
	b.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs...), kgo.DefaultProduceTopic(topic), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for _, s := range all {
		client.Produce(b.Context(), &kgo.Record{
			Key:   []byte(s.Workspace + "/" + s.Conversation),
			Value: fmt.Appendf(nil, `{"v":1,"task":%q,"workspace":%q}`, s.TaskID, s.Workspace),
		}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// echo is a model without latency: what the benchmarks measure is everything around the call.
type echo struct{ calls func() }

func (echo) Name() string { return "echo" }

func (e echo) Call(context.Context, llm.Request) (llm.Answer, error) {
	if e.calls != nil {
		e.calls()
	}
	return llm.Answer{Text: text(answered), FinishReason: "stop", Report: llm.Report{WireRequests: 1,
		Usage: &llm.Usage{InputTokens: 150, OutputTokens: 250}}}, nil
}

var filler = func() string {
	b := make([]byte, 4096)
	for i := range b {
		b[i] = "the quick brown fox jumps over "[i%31]
	}
	return string(b)
}()

func text(n int) string { return filler[:n] }
