package outbox

import (
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/tasks"
)

// Config of a dispatcher. Store, Kafka and Topic are needed; a zero in any other field takes its default.
type Config struct {
	Store Store
	// Kafka is how to reach the brokers: seeds, TLS, SASL, hooks. What producing needs is set over it.
	Kafka []kgo.Opt
	Topic string

	Owner     string        // unique for each process start; a random one
	Lease     time.Duration // of the shards: how long a crash keeps them unread; 10 s, at least 100 ms
	BatchSize int           // handoffs a read; 1000
	PollMin   time.Duration // between reads while there is work; 5 ms
	PollMax   time.Duration // between reads while there is none; 250 ms
	// SweepEvery is the least pause between two looks for late rows; 1 s. It is never under 40 times what the last one took.
	SweepEvery   time.Duration
	PromoteEvery time.Duration // between looks for delayed handoffs that are due; 200 ms
	DrainTimeout time.Duration // at the end, for what is in flight; 5 s

	// Group is whose positions say which records are done with. Empty: lost tasks are not recovered.
	Group string
	// RecoverEvery is the pause between two looks at the group's positions; 10 s. A look costs four requests.
	RecoverEvery time.Duration
	// RecoverMargin is how long a task must have been due to be taken for lost; 10 s. Nothing depends on it but how soon a
	// worker's own copies of lost records have a rival: see the package comment.
	RecoverMargin time.Duration

	// Tracer has a span for each publishing of a handoff, which the record names as its parent. Nil: the record has the
	// submission's traceparent.
	Tracer     tasks.Tracer
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() (Config, error) {
	if c.Store == nil || c.Topic == "" || len(c.Kafka) == 0 {
		return c, errors.New("outbox: a store, the brokers and a topic are needed")
	}
	if c.Owner == "" {
		c.Owner = uuid.NewString()
	}
	if c.BatchSize <= 0 {
		c.BatchSize = 1000
	}
	orDefault(&c.Lease, 10*time.Second)
	orDefault(&c.PollMin, 5*time.Millisecond)
	orDefault(&c.PollMax, 250*time.Millisecond)
	orDefault(&c.SweepEvery, time.Second)
	orDefault(&c.PromoteEvery, 200*time.Millisecond)
	orDefault(&c.DrainTimeout, 5*time.Second)
	orDefault(&c.RecoverEvery, 10*time.Second)
	orDefault(&c.RecoverMargin, 10*time.Second)
	c.Lease = max(c.Lease, 100*time.Millisecond)
	c.PollMax = max(c.PollMin, c.PollMax)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func orDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// window bounds the handoffs in hand: what is being read, published and deleted at once.
func (c Config) window() int { return 4 * c.BatchSize }
