package procs

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/e2e/broker"
)

// World is one installation.
type World struct {
	Brokers     []string
	Topic       string
	Group       string
	PostgresURL string
	Model       *Model
	Key         string // of an API key of the workspace "test"
	Pool        *pgxpool.Pool
	Kafka       *kgo.Client

	t     testing.TB
	flags []string // of every process
}

// NewWorld makes an installation with the program's own verbs: topics, schema, API key, and a running model.
// flags are given to every node.
func NewWorld(t testing.TB, partitions int, flags ...string) *World {
	t.Helper()
	b := broker.Shared(t)
	w := &World{t: t, Brokers: b.Addrs, PostgresURL: database(t), flags: flags}
	// Only the name is taken from there: the topics are for the program to create.
	w.Topic = "procs-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	w.Group = w.Topic
	w.CLI("topics", "create", "--partitions", strconv.Itoa(partitions), "--kafka-brokers", strings.Join(w.Brokers, ","), "--kafka-topic", w.Topic)
	w.CLI("migrate", "up", "--postgres-url", w.PostgresURL)
	w.Key = strings.TrimSpace(w.CLI("keys", "create", "-o", "json", "--workspace", "test", "--postgres-url", w.PostgresURL))
	w.Key = fieldOf(t, w.Key, "secret")

	pool, err := pgxpool.New(t.Context(), w.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	w.Pool = pool
	w.Kafka, err = kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Kafka.Close)
	w.Model = startModel(t)
	return w
}

// CLI runs a verb that ends by itself and returns its stdout.
func (w *World) CLI(args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(w.t), args...)
	cmd.Env = environment()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("fencepost %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

// environment is ours without settings of the program, which would change what is tested.
func environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "FENCEPOST_") {
			env = append(env, kv)
		}
	}
	return env
}
