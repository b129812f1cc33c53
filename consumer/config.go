package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// Order says which records wait for one another.
type Order string

const (
	// OrderConversation: records with one key one after another, different keys of a partition at once. The default.
	OrderConversation Order = "conversation"
	// OrderPartition: the records of a partition one after another.
	OrderPartition Order = "partition"
	// OrderNone: all at once.
	OrderNone Order = "none"
)

// Valid reports whether o is one of the orders.
func (o Order) Valid() bool {
	return o == OrderConversation || o == OrderPartition || o == OrderNone
}

// Protocol is how the group decides who owns what.
type Protocol string

const (
	ProtocolClassic  Protocol = "classic"  // cooperative-sticky, decided by a member
	ProtocolConsumer Protocol = "consumer" // KIP-848, decided by the broker; Kafka 4.0 and later
)

// Config says what to consume and within which bounds. Zero fields take the default named with them.
type Config struct {
	// Kafka connects: seed brokers, TLS, SASL, client id, hooks. Required.
	Kafka []kgo.Opt
	Topic string // required; dead letters go to Topic + ".dlq"
	Group string // required
	// Worker names this process start in leases and the ledger. It must be unique for each start: a worker that takes
	// its predecessor's name would pass for the owner of what that one left running. Required.
	Worker string

	Order Order // OrderConversation

	// Protocol of the group: ProtocolClassic.
	Protocol Protocol
	// InstanceID makes the membership static: a restart within the session timeout moves no partition. It must be unique
	// among the live members, and needs ProtocolClassic: franz-go cannot leave a KIP-848 group with one.
	InstanceID string
	// Owners keeps positions with the replies, too. Nil: in the group's commits alone.
	Owners Owners

	// MaxInFlight bounds claimed tasks, which is calls open at once: 256.
	MaxInFlight int
	// MaxInFlightPerWorkspace bounds the same for each workspace; 0: no bound.
	MaxInFlightPerWorkspace int
	// MaxQueued bounds the unsettled records held for one partition; at the bound its fetching pauses, at half of it
	// goes on: 16,384. A conversation or a workspace with more records than that holds up those behind it.
	MaxQueued int
	// MaxQueuedBytes bounds the same in bytes: 16 MiB.
	MaxQueuedBytes int
	// MaxWindow bounds how far a partition is read beyond its first unsettled record, in records: 65,536.
	MaxWindow int

	// Lease is how long an assignment lives without renewal: 20 s. It is renewed every quarter of it.
	Lease time.Duration
	// ParkMax: a task not due within it gets a new handoff, and its record is settled: 1 min.
	ParkMax time.Duration
	// CallTimeout bounds one provider call, within the task's deadline: 5 min.
	CallTimeout time.Duration
	// Retry spaces the attempts.
	Retry tasks.RetryPolicy

	// CommitInterval: 1 s.
	CommitInterval time.Duration
	// RecommitAfter is the age at which a position that has not moved is committed again: 6 h. Brokers forget commits that
	// are older than offsets.retention.minutes, 7 days by default.
	RecommitAfter time.Duration
	// SessionTimeout of the group: 15 s, so that the work of a killed worker goes on after about a lease.
	SessionTimeout time.Duration
	// RebalanceTimeout of the group: 60 s.
	RebalanceTimeout time.Duration
	// DrainTimeout is how long a revoke or a stop waits for started work: 25 s, at most half of RebalanceTimeout, since
	// a member that exceeds the rebalance timeout may lose all its partitions.
	DrainTimeout time.Duration
	// StopTimeout is how long a stop lets calls go on altogether: DrainTimeout, and never less. A call that needs longer is
	// made again by another worker, so a deploy costs no second call where this is the longest call.
	StopTimeout time.Duration

	// Price is what a call with a known usage costs, in picodollars, and by which price; not ok: unknown. Nil: it always
	// is. It must not block.
	Price func(provider, model string, u llm.Usage) (pico int64, version string, ok bool)

	// Gate says when calls may begin. Nil: always.
	Gate Gate
	// HistoryTurns bounds how many earlier messages of the conversation are sent along: 20; below 0, none.
	HistoryTurns int
	// HistoryTokens bounds the same by an estimate of their tokens: 8,000. The oldest are left out first.
	HistoryTokens int
	// Live shows streamed texts to those who watch. Nil: nobody sees them.
	Live tasks.LiveTexts
	// LiveInterval is how often they are published: 250 ms.
	LiveInterval time.Duration

	// Tracer has a span for each attempt, and one in it for each call of the provider. Nil: the provider is sent the record's
	// traceparent.
	Tracer tasks.Tracer

	Logger     *slog.Logger          // slog.Default()
	Registerer prometheus.Registerer // nil: metrics are kept but registered nowhere
	// OnFinished is called after tasks became terminal: a hint for those who wait. It must not block.
	OnFinished func()
}

func (c Config) withDefaults() (Config, error) {
	if c.Topic == "" || c.Group == "" || c.Worker == "" {
		return c, errors.New("consumer: Topic, Group and Worker are required")
	}
	if c.Order == "" {
		c.Order = OrderConversation
	}
	if !c.Order.Valid() {
		return c, fmt.Errorf("consumer: unknown order %q", c.Order)
	}
	switch {
	case c.Protocol == "":
		c.Protocol = ProtocolClassic
	case c.Protocol != ProtocolClassic && c.Protocol != ProtocolConsumer:
		return c, fmt.Errorf("consumer: unknown group protocol %q", c.Protocol)
	case c.Protocol == ProtocolConsumer && c.InstanceID != "":
		return c, errors.New("consumer: an instance id needs the classic group protocol")
	}
	setInt(&c.MaxInFlight, 256)
	setInt(&c.MaxQueued, 16384)
	setInt(&c.MaxQueuedBytes, 16<<20)
	setInt(&c.MaxWindow, 65536)
	setDuration(&c.Lease, 20*time.Second)
	setDuration(&c.ParkMax, time.Minute)
	setDuration(&c.CallTimeout, 5*time.Minute)
	if c.HistoryTurns == 0 {
		c.HistoryTurns = 20
	}
	setInt(&c.HistoryTokens, 8000)
	setDuration(&c.LiveInterval, 250*time.Millisecond)
	setDuration(&c.CommitInterval, time.Second)
	setDuration(&c.RecommitAfter, 6*time.Hour)
	setDuration(&c.SessionTimeout, 15*time.Second)
	setDuration(&c.RebalanceTimeout, time.Minute)
	setDuration(&c.DrainTimeout, 25*time.Second)
	c.StopTimeout = max(c.StopTimeout, c.DrainTimeout)
	if c.DrainTimeout > c.RebalanceTimeout/2 {
		return c, fmt.Errorf("consumer: the drain timeout (%s) must be at most half of the rebalance timeout (%s), or a slow drain costs every partition",
			c.DrainTimeout, c.RebalanceTimeout)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.OnFinished == nil {
		c.OnFinished = func() {}
	}
	return c, nil
}

func setInt(v *int, def int) {
	if *v <= 0 {
		*v = def
	}
}

func setDuration(v *time.Duration, def time.Duration) {
	if *v <= 0 {
		*v = def
	}
}
