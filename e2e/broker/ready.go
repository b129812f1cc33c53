package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ready waits until the broker answers, would create a topic, and has a group coordinator: each of the three comes
// later than the one before it, and a test that starts in between fails for no fault of its own.
func ready(ctx context.Context, addrs []string, server Server) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...),
		kgo.DialTimeout(2*time.Second), kgo.RetryTimeout(2*time.Second), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for {
		err := probe(ctx, admin)
		if err == nil {
			return nil
		}
		if server != nil && !server.Alive() {
			return errors.New("the broker has ended before it was ready")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no broker is ready at %v: %w (last: %w)", addrs, context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func probe(ctx context.Context, admin *kadm.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if brokers, err := admin.ListBrokers(ctx); err != nil {
		return err
	} else if len(brokers) == 0 {
		return errors.New("no broker in the metadata")
	}
	created, err := admin.ValidateCreateTopics(ctx, 1, 1, nil, "fencepost-ready")
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return err
	}
	offsets, err := admin.FetchOffsets(ctx, "fencepost-ready")
	if err == nil {
		err = offsets.Error()
	}
	return err
}
