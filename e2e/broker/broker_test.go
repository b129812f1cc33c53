package broker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/e2e/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(broker.Main(m)) }

func client(t *testing.T, b *broker.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addrs...), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func produce(t *testing.T, c *kgo.Client, topic, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func consume(t *testing.T, c *kgo.Client, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("record %q did not arrive", want)
		}
		for _, r := range fetches.Records() {
			if string(r.Value) == want {
				return
			}
		}
	}
}

func TestSharedBrokerServesTopicsAndGroups(t *testing.T) {
	b := broker.Shared(t)
	if again := broker.Shared(t); again.Addrs[0] != b.Addrs[0] {
		t.Fatalf("two shared brokers: %v and %v", b.Addrs, again.Addrs)
	}
	topic := broker.Topic(t, b, 3)
	c := client(t, b, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic), kgo.FetchMaxWait(200*time.Millisecond))
	produce(t, c, topic, "hello")
	consume(t, c, "hello")

	topics, err := kadm.NewClient(c).ListTopics(t.Context(), topic, topic+".dlq")
	if err != nil || topics.Error() != nil {
		t.Fatal(err, topics.Error())
	}
	if n := len(topics[topic].Partitions); n != 3 {
		t.Errorf("%d partitions, want 3", n)
	}
}

func TestBothGroupProtocolsAreServed(t *testing.T) {
	b := broker.Shared(t)
	topic := broker.Topic(t, b, 1)
	c := client(t, b, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	produce(t, c, topic, "hello")
	consume(t, c, "hello")
}

func TestBrokerOfItsOwnIsKilledAndComesBack(t *testing.T) {
	b := broker.Start(t, broker.Config("offset.metadata.max.bytes", "100"))
	topic := broker.Topic(t, b, 1)
	c := client(t, b, kgo.ConsumeTopics(topic), kgo.FetchMaxWait(200*time.Millisecond))
	produce(t, c, topic, "before")

	b.Kill()
	b.Restart()
	produce(t, c, topic, "after kill")
	b.Stop()
	b.Restart()
	produce(t, c, topic, "after stop")
	consume(t, c, "after stop")

	b.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := kadm.NewClient(c).ListBrokers(ctx); err == nil {
		t.Error("a paused broker answered")
	}
	b.Resume()
	produce(t, c, topic, "resumed")
	consume(t, c, "resumed")

	configs, err := kadm.NewClient(c).DescribeBrokerConfigs(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, rc := range configs {
		for _, kv := range rc.Configs {
			if kv.Key == "offset.metadata.max.bytes" && kv.Value != nil {
				got = *kv.Value
			}
		}
	}
	if got != "100" {
		t.Errorf("offset.metadata.max.bytes is %q, want 100", got)
	}
	if !strings.Contains(b.Log(), "started") {
		t.Errorf("the broker's log says nothing of its start:\n%s", b.Log())
	}
}
