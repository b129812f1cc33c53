package procs

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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

	// Broker may be killed if it is the world's own; Server, the world's own Postgres, is nil if it is not.
	Broker *broker.Broker
	Server *Server

	t     testing.TB
	own   Own
	flags []string // of every process
}

// Own says what an installation shares with no other, so that it may be killed.
type Own struct{ Broker, Postgres bool }

// NewWorld makes an installation with the program's own verbs: topics, schema, API key, and a running model.
// flags are given to every node.
func NewWorld(t testing.TB, partitions int, flags ...string) *World {
	t.Helper()
	return NewOwnWorld(t, Own{}, partitions, flags...)
}

// NewOwnWorld is NewWorld with a broker or a Postgres of its own.
func NewOwnWorld(t testing.TB, own Own, partitions int, flags ...string) *World {
	t.Helper()
	w := &World{t: t, own: own, flags: flags}
	if own.Broker {
		w.Broker = broker.Start(t)
	} else {
		w.Broker = broker.Shared(t)
	}
	w.Brokers = w.Broker.Addrs
	if own.Postgres {
		w.Server = startServer(t)
		w.PostgresURL = w.Server.URL
	} else {
		w.PostgresURL = database(t)
	}
	// Only the name is taken from there: the topics are for the program to create.
	w.Topic = "procs-" + strings.ToLower(rand.Text()[:12])
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
	w.shortSession()
	w.Model = startModel(t)
	return w
}

// shortSession is --session-timeout for a group of the protocol of KIP-848, where the broker has it. The broker's own 45 s
// would be the wait for the partitions of everyone that is killed.
func (w *World) shortSession() {
	w.t.Helper()
	value, beat := "3000", "600"
	set := kmsg.NewIncrementalAlterConfigsRequestResource()
	set.ResourceType, set.ResourceName = kmsg.ConfigResourceTypeGroupConfig, w.Group
	set.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{
		{Name: "consumer.session.timeout.ms", Value: &value}, {Name: "consumer.heartbeat.interval.ms", Value: &beat},
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, set)
	resp, err := req.RequestWith(w.t.Context(), w.Kafka)
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		w.t.Fatalf("the group's session: %v", err)
	}
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
