package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/tasks"
)

const (
	retryPause = 500 * time.Millisecond
	// progressAfter: a service that is a little slow to come up is not worth a line.
	progressAfter = 2 * time.Second
)

// await tries until try succeeds, fails for good, or the time is over.
func (c Config) await(ctx context.Context, what string, try func(context.Context) (again bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, c.StartTimeout)
	defer cancel()
	began, told := time.Now(), false
	var last error
	for {
		again, err := try(ctx)
		if err == nil || !again {
			return err
		}
		// A try that our own clock ended says less than the one before it.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if !told && time.Since(began) > progressAfter {
			told = true
			c.Progress("waiting up to %s for %s", c.StartTimeout, what)
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return context.Cause(ctx)
			}
			return last
		case <-time.After(retryPause):
		}
	}
}

// awaitKafka waits for the brokers and checks the topics.
func (c Config) awaitKafka(ctx context.Context) error {
	client, err := c.Kafka.Client(c.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	return c.awaitBrokers(ctx, func(ctx context.Context) error { return checkTopics(ctx, admin, c.Kafka) })
}

// awaitBrokers tries ask until the brokers answer it.
func (c Config) awaitBrokers(ctx context.Context, ask func(context.Context) error) error {
	return c.await(ctx, "Kafka at "+c.Kafka.Address(), func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		err := ask(ctx)
		var problem *Problem
		switch {
		case err == nil:
			return false, nil
		case errors.As(err, &problem):
			return false, err
		case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism):
			return false, &Problem{Kind: ErrUnreachable, Text: "Kafka at " + c.Kafka.Address() + " refused the credentials", Err: err,
				Hint: "check --kafka-sasl, --kafka-sasl-user and the password"}
		}
		return true, &Problem{Kind: ErrUnreachable, Text: "Kafka at " + c.Kafka.Address() + " cannot be reached", Err: err,
			Hint: "check --kafka-brokers, that the broker runs, that its advertised listeners are reachable from here, and --kafka-tls"}
	})
}

// retryPostgres reports whether a failed attempt to reach Postgres may succeed later, and explains the failure.
func retryPostgres(err error) (bool, error) {
	var server *pgconn.PgError
	switch {
	case errors.Is(err, migrations.ErrNewer):
		return false, &Problem{Kind: ErrNotReady, Text: err.Error()}
	case errors.Is(err, tasks.ErrSchema):
		return false, &Problem{Kind: ErrNotReady, Text: err.Error(), Hint: "fencepost migrate up"}
	case errors.As(err, &server) && server.Code != "57P03" && server.Code != "53300":
		return false, &Problem{Kind: ErrUnreachable, Text: err.Error(), Hint: "check --postgres-url (or FENCEPOST_POSTGRES_URL)"}
	case errors.Is(err, tasks.ErrUnavailable), pgconn.Timeout(err), errors.Is(err, context.DeadlineExceeded):
		return true, &Problem{Kind: ErrUnreachable, Text: err.Error(), Hint: "check --postgres-url (or FENCEPOST_POSTGRES_URL) and that Postgres runs there"}
	}
	return false, fmt.Errorf("open the store: %w", err)
}
