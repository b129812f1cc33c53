package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/dev"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
	"github.com/fencepost/fencepost/tasks/postgres/embedded"
)

// startParts starts what is not replaced, side by side, prepares it, and returns the node's configuration.
func (d *devCommand) startParts(ctx context.Context) (node.Config, error) {
	config := d.node.config(d.llm.defaultModel())
	config.Roles, config.NextPort, config.Logger, config.Progress = node.AllRoles, true, d.log, d.a.note
	g, gctx := errgroup.WithContext(ctx)
	if d.postgres.url == "" {
		g.Go(func() (err error) {
			if d.server, err = dev.StartPostgres(gctx, d.dir, d.data.download, d.log); err != nil {
				return explainPostgres(err)
			}
			d.postgres.url = d.server.URL("postgres")
			return nil
		})
	}
	if len(d.kafka.brokers) == 0 {
		g.Go(func() (err error) {
			if d.broker, err = dev.StartKafka(d.dir, d.log); err != nil {
				return err
			}
			d.kafka.brokers = []string{d.broker.Address()}
			return nil
		})
	}
	if d.llm.baseURL == "" && d.llm.provider.String() == "sim" {
		g.Go(func() (err error) {
			if d.model, err = dev.StartModel(d.dir, d.log); err != nil {
				return fmt.Errorf("simulated model: %w", err)
			}
			d.llm.baseURL = d.model.URL()
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return config, err
	}

	var err error
	if config.Provider, err = d.llm.open(d.a); err != nil {
		return config, err
	}
	if config.Gate, err = d.llm.gate(); err != nil {
		return config, err
	}
	if config.Prices, err = d.llm.prices(); err != nil {
		return config, err
	}
	config.Reserve = d.llm.reserve(config.Prices, d.node.historyTokens)
	if config.Templates, err = promptTemplates(d.node.promptTemplates); err != nil {
		return config, err
	}
	if config.Kafka, err = d.kafka.read(d.a); err != nil {
		return config, err
	}
	config.PostgresURL = d.postgres.url
	if err := node.Await(ctx, config); err != nil {
		return config, explain(err)
	}
	if _, err := migrations.Up(ctx, config.PostgresURL); err != nil {
		return config, err
	}
	if _, err := node.CreateTopics(ctx, config.Kafka, node.DefaultPartitions, -1, d.log); err != nil {
		return config, fmt.Errorf("make the topics at %s: %w", config.Kafka.Address(), err)
	}
	d.ready = devReady{
		Kafka: config.Kafka.Address(), Postgres: config.PostgresURL, LLM: d.llm.baseURL,
		Workspace: devWorkspace, Topic: config.Kafka.Topic, Group: config.Kafka.Group,
	}
	if d.postgres.url != "" && d.server == nil {
		d.ready.Postgres = cli.Masked(config.PostgresURL) // not ours to print
	}
	d.ready.APIKey, err = d.apiKey(ctx, config.PostgresURL)
	return config, err
}

// apiKey returns the key that the directory keeps, or makes one. The database decides whether it is good: either of the
// two may be older than the other.
func (d *devCommand) apiKey(ctx context.Context, url string) (string, error) {
	store, err := postgres.Open(ctx, postgres.Config{URL: url, MaxConns: 1})
	if err != nil {
		return "", err
	}
	defer store.Close()
	secret, err := d.dir.APIKey()
	if err != nil {
		return "", err
	}
	if secret != "" {
		key, err := store.KeyByHash(ctx, tasks.HashKey(secret))
		switch {
		case err == nil && !key.Revoked() && key.Workspace == devWorkspace:
			return secret, nil
		case err != nil && !errors.Is(err, tasks.ErrNotFound):
			return "", err
		}
	}
	secret = tasks.NewKey()
	if _, err := store.CreateKey(ctx, devWorkspace, "dev", tasks.HashKey(secret)); err != nil {
		return "", err
	}
	return secret, d.dir.KeepAPIKey(secret)
}

// stopParts ends what startParts began.
func (d *devCommand) stopParts() error {
	var errs []error
	if d.broker != nil {
		d.broker.Close()
	}
	if d.model != nil {
		errs = append(errs, d.model.Close())
	}
	if d.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		errs = append(errs, d.server.Stop(ctx))
	}
	return errors.Join(errs...)
}

func explainPostgres(err error) error {
	switch {
	case errors.Is(err, embedded.ErrBinaries):
		return cli.Fail("install Postgres with the system's package manager, or use a running one with --postgres-url", "%w", err)
	case errors.Is(err, embedded.ErrVersion):
		return cli.Refuse("choose another --data-dir, or install that version", "%w", err)
	}
	return cli.Fail("use a running Postgres instead with --postgres-url", "%w", err)
}
