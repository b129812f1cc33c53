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

	"github.com/fencepost/fencepost/cmd/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/offsets/lag"
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

	traces *telemetry.Telemetry // nil: off

	store *postgres.Store
	hints *postgres.Hints

	api        *httpapi.Server
	dispatcher *outbox.Dispatcher
	worker     *consumer.Consumer
	lag        *lag.Monitor // only with the dispatcher
	lagClient  *kgo.Client

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
			n.Stop()
		}
	}()
	n.registry = prometheus.NewRegistry()
	n.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(config.Version))

	if config.Traces {
		n.traces, err = telemetry.Open(ctx, telemetry.Config{
			Endpoint: config.TracesEndpoint, Version: config.Version, Instance: n.name, Logger: config.Logger,
		})
		if err != nil {
			return nil, &Problem{Kind: ErrNotReady, Text: "traces", Err: err, Hint: "check --otel-endpoint and the OTEL_… variables"}
		}
	}
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
		if err := config.awaitKafka(ctx); err != nil {
			return nil, err
		}
	}
	for _, part := range []struct {
		role  Role
		build func() error
	}{{API, n.buildAPI}, {Dispatcher, n.buildDispatcher}, {Worker, n.buildWorker}} {
		if config.has(part.role) {
			if err := part.build(); err != nil {
				return nil, fmt.Errorf("%s: %w", part.role, err)
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
	n.ready.add("postgres", n.checkStore)
	return nil
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
	n.Stop()
	return err
}

// Stop ends what was begun, once. The worker begins to drain while the API ends its open requests.
func (n *Node) Stop() {
	n.ready.set("stopping")
	for _, s := range n.services {
		if s.name == "worker" {
			s.cancel(errStopping)
		}
	}
	for _, s := range n.services {
		s.stop()
	}
	if n.lagClient != nil {
		n.lagClient.Close()
	}
	if n.store != nil {
		n.store.Close()
	}
	if n.traces != nil {
		n.closeTraces()
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
