package broker

import (
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var notInTopic = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)

// Topic creates a topic with a name of its own and partitions partitions, and its dead-letter topic (<name>.dlq, one
// partition), and returns the name. On a broker that is not ours they are deleted at the end of the test.
func Topic(t testing.TB, b *Broker, partitions int) string {
	t.Helper()
	name := notInTopic.ReplaceAllString(t.Name(), "-")
	name = name[:min(len(name), 100)] + "-" + strings.ToLower(rand.Text()[:10])
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs...))
	if err != nil {
		t.Fatalf("broker: %v", err)
	}
	t.Cleanup(client.Close)
	admin := kadm.NewClient(client)
	for topic, n := range map[string]int{name: partitions, name + ".dlq": 1} {
		if err := create(t.Context(), admin, topic, n); err != nil {
			t.Fatalf("broker: create topic %s: %v", topic, err)
		}
	}
	if b.server == nil {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if _, err := admin.DeleteTopics(ctx, name, name+".dlq"); err != nil {
				t.Logf("broker: delete topic %s: %v", name, err)
			}
		})
	}
	return name
}

func create(ctx context.Context, admin *kadm.Client, topic string, partitions int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	created, err := admin.CreateTopic(ctx, int32(partitions), 1, nil, topic)
	if err != nil {
		return err
	}
	if created.Err != nil {
		return fmt.Errorf("%w %s", created.Err, created.ErrMessage)
	}
	// Created is not yet served: until the leader is known, producing and fetching would fail and be retried.
	for {
		topics, err := admin.ListTopics(ctx, topic)
		if err == nil {
			if err = topics.Error(); err == nil && len(topics[topic].Partitions) == partitions {
				leaders := 0
				for _, p := range topics[topic].Partitions {
					if p.Err == nil && p.Leader >= 0 {
						leaders++
					}
				}
				if leaders == partitions {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("created, but not served: %w (%w)", context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
