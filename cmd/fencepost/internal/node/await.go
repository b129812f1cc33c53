package node

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/fencepost/fencepost/tasks/postgres"
	"github.com/fencepost/fencepost/tasks/postgres/dsn"
)

// Await waits until Postgres and Kafka answer, however they are prepared.
func Await(ctx context.Context, c Config) error {
	config, err := dsn.Parse(c.PostgresURL)
	if err != nil {
		return badURL(err)
	}
	err = c.await(ctx, "Postgres at "+dsn.Address(config), func(ctx context.Context) (bool, error) {
		store, err := postgres.Open(ctx, postgres.Config{URL: c.PostgresURL, MaxConns: 1})
		if err != nil {
			return retryPostgres(err)
		}
		store.Close()
		return false, nil
	})
	if err != nil {
		return err
	}
	client, err := c.Kafka.Client(c.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	return c.awaitBrokers(ctx, func(ctx context.Context) error {
		_, err := kadm.NewClient(client).BrokerMetadata(ctx)
		return err
	})
}

func badURL(err error) error {
	return &Problem{Kind: ErrUnreachable, Text: err.Error(), Hint: "check --postgres-url (or FENCEPOST_POSTGRES_URL)"}
}
