package node

import (
	"context"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/offsets/kafka"
	places "github.com/fencepost/fencepost/offsets/postgres"
	"github.com/fencepost/fencepost/tasks/httpapi"
	"github.com/fencepost/fencepost/tasks/outbox"
	"github.com/fencepost/fencepost/tasks/postgres"
)

func (n *Node) buildAPI() (err error) {
	n.api, err = httpapi.New(httpapi.Config{
		Store: n.store, Live: n.store, Keys: n.store, Backlog: n.store, Limits: n.config.Limits, Bindings: n.store, Defaults: n.config.Defaults, Templates: n.config.Templates, Reserve: n.config.Reserve,
		KeyOptional: n.config.KeyOptional, Logger: n.config.Logger, Registerer: n.registry, Tracer: n.tracer(),
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
		Store: postgres.NewOutbox(n.store.Pool()), Kafka: opts, Topic: n.config.Kafka.Topic, Group: n.config.Kafka.Group, Owner: n.name,
		Logger: n.config.Logger, Registerer: n.registry, Tracer: n.tracer(),
	})
	if err != nil {
		return err
	}
	n.ready.add("dispatcher", func(context.Context) error { return n.dispatcher.Ready() })
	n.ready.detail("dispatcher", func() map[string]any { return map[string]any{"name": n.name, "leads": n.dispatcher.Leads()} })
	return n.buildLag()
}

func (n *Node) buildWorker() error {
	config := n.config.Consumer
	var err error
	if config.Kafka, err = n.config.Kafka.Options("worker", n.registry, n.config.Logger); err != nil {
		return err
	}
	config.Topic, config.Group, config.Worker = n.config.Kafka.Topic, n.config.Kafka.Group, n.name
	config.Logger, config.Registerer, config.Tracer = n.config.Logger, n.registry, n.tracer()
	config.OnFinished = func() {
		if n.api != nil {
			n.api.Wake()
		}
		// Other processes' APIs have waiters of the same tasks.
		n.hints.Notify(postgres.ChannelFinished)
	}
	if prices := n.config.Prices; prices != nil {
		config.Price = prices.Cost
	}
	if gate := n.config.Gate; gate != nil {
		config.Gate = gate
		n.registry.MustRegister(newGateCollector(gate, n.config.Provider.Name()))
	}
	if n.config.LiveTokens {
		config.Live = n.store
	}
	if n.config.OffsetsInPostgres {
		config.Owners = places.New(n.store.Pool())
	}
	positions := kafka.New(kafka.Config{Group: config.Group, Logger: n.config.Logger})
	if n.worker, err = consumer.New(config, n.store, n.config.Provider, positions); err != nil {
		return err
	}
	n.ready.add("worker", func(context.Context) error { return n.worker.Ready() })
	n.ready.detail("worker", n.workerDetail)
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
		folds := n.begin("spend", func(ctx context.Context) error { return n.foldSpend(ctx, n.store, foldEvery) })
		sweeps := n.begin("sweep", func(ctx context.Context) error { return n.sweep(ctx, n.store, sweepEvery) })
		n.services = append(n.services, n.begin("dispatcher", n.dispatcher.Run), n.begin("lag", n.lag.Run), listens, sweeps, folds)
	}
	if n.worker != nil {
		n.services = append(n.services, n.begin("worker", n.worker.Run))
	}
	n.services = append(n.services, n.begin("hints", n.hints.Run))
}
