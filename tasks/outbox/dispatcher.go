package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Dispatcher publishes handoffs. See the package comment.
type Dispatcher struct {
	config  Config
	metrics *metrics
	wake    chan struct{}
	leads   atomic.Bool // it reads shard 0

	mu      sync.Mutex
	leases  error // why the shards' leases could not be renewed; nil when they were
	publish error // what the last record failed with; nil when it got through
}

var errStarting = errors.New("dispatcher has not registered yet")

// New checks config and registers the metrics. Nothing is connected or started before Run.
func New(config Config) (*Dispatcher, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := kgo.ValidateOpts(config.producing()...); err != nil {
		return nil, fmt.Errorf("outbox: client options: %w", err)
	}
	m, err := newMetrics(config)
	if err != nil {
		return nil, fmt.Errorf("outbox: metrics: %w", err)
	}
	return &Dispatcher{config: config, metrics: m, wake: make(chan struct{}, 1), leases: errStarting}, nil
}

// Run publishes until ctx is done. It then waits, up to DrainTimeout, for what is in flight, deletes what was
// acknowledged, gives up its shards and returns nil; what it could not finish is published by another dispatcher. The
// only error is that of a client that cannot be made. Run is called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	client, err := kgo.NewClient(d.config.producing()...)
	if err != nil {
		return fmt.Errorf("outbox: client: %w", err)
	}
	newLoop(d, client).run(ctx)
	d.leads.Store(false)
	d.resign(ctx)
	return nil
}

// Wake hints that the outbox has new rows. It never blocks, and many calls at once are one.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Ready says why the dispatcher cannot work: its leases cannot be renewed, or the last record did not get through. Nil
// while it has nothing to say against it; a dispatcher without a shard, beside enough others, is ready.
func (d *Dispatcher) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leases != nil {
		return fmt.Errorf("outbox: shards: %w", d.leases)
	}
	if d.publish != nil {
		return fmt.Errorf("outbox: publish to %s: %w", d.config.Topic, d.publish)
	}
	return nil
}

// Leads reports whether this dispatcher reads shard 0. One of all that are live does, but for moments: what one process of
// an installation is to do for all is done by that one.
func (d *Dispatcher) Leads() bool { return d.leads.Load() }

// report sets one of the two reasons and returns what it was.
func (d *Dispatcher) report(reason *error, err error) (before error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, *reason = *reason, err
	return before
}

func (d *Dispatcher) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := d.config.Store.Resign(ctx, d.config.Owner); err != nil {
		d.config.Logger.Warn("shards were not given up; others take them over when the lease ends",
			"owner", d.config.Owner, "lease", d.config.Lease, "error", err)
	}
}
