package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/offsets/kafka"
	"github.com/fencepost/fencepost/tasks/httpapi"
	"github.com/fencepost/fencepost/tasks/outbox"
	"github.com/fencepost/fencepost/tasks/postgres"
	"github.com/fencepost/fencepost/tasks/postgres/dsn"
)

// Node is a running process of the product.
type Node struct {
	config   Config
	name     string // unique for each start: owner of leases and shards
	registry *prometheus.Registry
	ready    *readiness

	store *postgres.Store
	hints *postgres.Hints
	admin *kgo.Client // for looking at the brokers

	api        *httpapi.Server
	dispatcher *outbox.Dispatcher
	worker     *consumer.Consumer

	apiListener, adminListener net.Listener
	services                   []*service // in the order they are stopped
	adminService               *service
	failed                     chan error
}

// service is a goroutine of the node.
type service struct {
	name   string
	cancel context.CancelCauseFunc
	done   chan struct{}
}

func (s *service) stop() {
	s.cancel(errStopping)
	<-s.done
}

var errStopping = errors.New("the node is stopping")

// Start connects, checks and begins every role. Its errors are *Problem where there is something to do. ctx ends the
// start only; what was begun when it fails has ended when it returns.
func Start(ctx context.Context, config Config) (_ *Node, err error) {
	if config.Progress == nil {
		config.Progress = func(string, ...any) {}
	}
	n := &Node{
		config: config,
		name:   processName(),
		ready:  &readiness{state: "starting", checks: map[string]func(context.Context) error{}},
		failed: make(chan error, 8),
	}
	defer func() {
		if err != nil {
			n.stop()
		}
	}()
	n.registry = prometheus.NewRegistry()
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(config.Version))

	// The admin listener first: while the node waits for something, it can be asked for what.
	if n.adminListener, err = listen(config.AdminListen, "admin-listen", config.NextPort); err != nil {
		return nil, err
	}
	n.adminService = n.begin("admin", func(ctx context.Context) error {
		return serve(ctx, newServer(n.adminHandler(n.registry), config.Logger), n.adminListener, time.Second)
	})
	if config.has(API) {
		if n.apiListener, err = listen(config.Listen, "listen", config.NextPort); err != nil {
			return nil, err
		}
	}
	if err := n.openStore(ctx); err != nil {
		return nil, err
	}
	if config.usesKafka() {
		if n.admin, err = config.awaitKafka(ctx); err != nil {
			return nil, err
		}
	}
	for _, make := range []struct {
		role  Role
		build func() error
	}{{API, n.buildAPI}, {Dispatcher, n.buildDispatcher}, {Worker, n.buildWorker}} {
		if config.has(make.role) {
			if err := make.build(); err != nil {
				return nil, fmt.Errorf("%s: %w", make.role, err)
			}
		}
	}
	n.beginRoles()
	n.ready.set("")
	return n, nil
}

// openStore waits for Postgres and checks its schema.
func (n *Node) openStore(ctx context.Context) error {
	config, err := dsn.Parse(n.config.PostgresURL)
	if err != nil {
		return badURL(err)
	}
	err = n.config.await(ctx, "Postgres at "+dsn.Address(config), func(ctx context.Context) (bool, error) {
		store, err := postgres.Open(ctx, postgres.Config{URL: n.config.PostgresURL, ApplicationName: n.name, Logger: n.config.Logger})
		if err != nil {
			return retryPostgres(err)
		}
		if err := migrations.Check(ctx, store.Pool()); err != nil {
			store.Close()
			return retryPostgres(err)
		}
		n.store = store
		return false, nil
	})
	if err != nil {
		return err
	}
	n.hints = postgres.NewHints(config.ConnConfig, n.config.Logger)
	n.ready.add("postgres", func(ctx context.Context) error {
		return migrations.Check(ctx, n.store.Pool())
	})
	return nil
}

func (n *Node) buildAPI() (err error) {
	n.api, err = httpapi.New(httpapi.Config{
		Store: n.store, Keys: n.store, Defaults: n.config.Defaults,
		Logger: n.config.Logger, Registerer: n.registry,
		OnSubmitted: func() {
			if n.dispatcher != nil {
				n.dispatcher.Wake()
			}
			// The shards are shared out: the dispatcher of another process may be the one to wake.
			n.hints.Notify(postgres.ChannelHandoffs)
		},
	})
	return err
}

func (n *Node) buildDispatcher() error {
	opts, err := n.config.Kafka.Options("dispatcher", n.registry, n.config.Logger)
	if err != nil {
		return err
	}
	n.dispatcher, err = outbox.New(outbox.Config{
		Store: postgres.NewOutbox(n.store.Pool()), Kafka: opts, Topic: n.config.Kafka.Topic, Owner: n.name,
		Logger: n.config.Logger, Registerer: n.registry,
	})
	if err != nil {
		return err
	}
	n.ready.add("dispatcher", func(context.Context) error { return n.dispatcher.Ready() })
	return nil
}

func (n *Node) buildWorker() error {
	config := n.config.Consumer
	var err error
	if config.Kafka, err = n.config.Kafka.Options("worker", n.registry, n.config.Logger); err != nil {
		return err
	}
	config.Topic, config.Group, config.Worker = n.config.Kafka.Topic, n.config.Kafka.Group, n.name
	config.Logger, config.Registerer = n.config.Logger, n.registry
	config.OnFinished = func() {
		if n.api != nil {
			n.api.Wake()
		}
		// Other processes' APIs have waiters of the same tasks.
		n.hints.Notify(postgres.ChannelFinished)
	}
	positions := kafka.New(kafka.Config{Group: config.Group, Logger: n.config.Logger})
	if n.worker, err = consumer.New(config, n.store, n.config.Provider, positions); err != nil {
		return err
	}
	n.ready.add("worker", func(context.Context) error { return n.worker.Ready() })
	return nil
}

// beginRoles starts what was built. The order of n.services is the order of the stop.
func (n *Node) beginRoles() {
	if n.api != nil {
		batcher := n.begin("api batcher", n.api.Run)
		server := newServer(n.api.Handler(), n.config.Logger)
		server.RegisterOnShutdown(n.api.Drain)
		listening := n.begin("api", func(ctx context.Context) error {
			return serve(ctx, server, n.apiListener, n.config.DrainTimeout)
		})
		listens := n.begin("api hints", func(ctx context.Context) error {
			return n.hints.Listen(ctx, postgres.ChannelFinished, n.api.Wake)
		})
		n.services = append(n.services, listening, batcher, listens)
	}
	if n.dispatcher != nil {
		listens := n.begin("dispatcher hints", func(ctx context.Context) error {
			return n.hints.Listen(ctx, postgres.ChannelHandoffs, n.dispatcher.Wake)
		})
		n.services = append(n.services, n.begin("dispatcher", n.dispatcher.Run), listens)
	}
	if n.worker != nil {
		n.services = append(n.services, n.begin("worker", n.worker.Run))
	}
	n.services = append(n.services, n.begin("hints", n.hints.Run))
}

// begin starts a goroutine of the node. One that ends before it is told to ends the node.
func (n *Node) begin(name string, run func(context.Context) error) *service {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &service{name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		err := run(ctx)
		switch {
		case ctx.Err() == nil:
			if err == nil {
				err = errors.New("it returned")
			}
			select {
			case n.failed <- fmt.Errorf("%s ended: %w", name, err):
			default: // one reason is enough
			}
		case err != nil:
			n.config.Logger.Warn("not everything ended in time", "part", name, "error", err)
		}
	}()
	return s
}

// Run waits until ctx is done, or a part of the node fails, and stops everything. It returns nil after a stop that ctx
// asked for, however much work was handed back.
func (n *Node) Run(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
	case err = <-n.failed:
	}
	n.stop()
	return err
}

// stop ends what was begun. The worker drains while the API does: who waits there still gets the answers that come.
func (n *Node) stop() {
	n.ready.set("stopping")
	for _, s := range n.services {
		if s.name == "worker" {
			s.cancel(errStopping)
		}
	}
	for _, s := range n.services {
		s.stop()
	}
	if n.admin != nil {
		n.admin.Close()
	}
	if n.store != nil {
		n.store.Close()
	}
	if n.adminService != nil {
		n.adminService.stop()
	}
	// A listener that no server took over.
	if n.apiListener != nil {
		_ = n.apiListener.Close()
	}
}

// APIAddress is host:port of the API, "" without that role.
func (n *Node) APIAddress() string {
	if n.apiListener == nil {
		return ""
	}
	return reachable(n.apiListener)
}

// AdminAddress is host:port of the admin listener.
func (n *Node) AdminAddress() string { return reachable(n.adminListener) }

// Ready reports why the node cannot work, or nil.
func (n *Node) Ready(ctx context.Context) error {
	r := n.ready.report(ctx, n.config.Roles)
	if r.Ready {
		return nil
	}
	for name, why := range r.Checks {
		if why != "ok" {
			return fmt.Errorf("%s: %s", name, why)
		}
	}
	return errors.New(r.State)
}

// Failed gives the error of a part that ended by itself.
func (n *Node) Failed() <-chan error { return n.failed }

func processName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "fencepost"
	}
	// Postgres cuts an application name at 63 bytes, and the id at the end is what makes it unique.
	if len(host) > 24 {
		host = host[:24]
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
}

func buildInfo(version string) prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "fencepost_build_info", Help: "1, with the version of the program."}, []string{"version"})
	g.WithLabelValues(version).Set(1)
	return g
}
