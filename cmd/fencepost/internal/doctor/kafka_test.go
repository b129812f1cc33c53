package doctor

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/e2e/broker"
)

var at9092 = node.Kafka{Brokers: []string{"kafka:9092"}, Topic: "reply-tasks", Group: "fencepost"}

func soundKafka() kafkaFacts {
	topic := func() topicFact {
		return topicFact{exists: true, id: true, partitions: 12, replicas: 3, insync: 3, config: settings{
			"min.insync.replicas": "2", "cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1", "max.message.bytes": "1048588",
		}}
	}
	k := kafkaFacts{topic: topic(), dlq: topic(), commits: topic(), newest: -time.Second,
		group: groupFact{state: "Stable", protocolType: "consumer", protocol: "cooperative-sticky", members: 2}}
	for id := range int32(3) {
		k.brokers = append(k.brokers, brokerFact{id: id, address: "kafka:9092", guess: "v4.3", consumer: true, config: settings{
			"group.min.session.timeout.ms": "6000", "group.max.session.timeout.ms": "1800000", "offset.metadata.max.bytes": "4096",
			"offsets.retention.minutes": "10080", "group.consumer.session.timeout.ms": "45000",
		}})
	}
	return k
}

func TestKafkaFacts(t *testing.T) {
	aside := []string{"replication", "min.insync.replicas", "cleanup.policy", "retention"}
	for _, c := range []struct {
		about  string
		change func(*kafkaFacts, *Settings)
		want
		also []string
	}{
		{"as it should be", func(*kafkaFacts, *Settings) {}, want{"reachable", OK}, nil},
		{"a broker that its own address does not lead to", func(k *kafkaFacts, _ *Settings) { k.brokers[1].err = errors.New("no such host") }, want{"reachable", Fail}, nil},
		{"too old", func(k *kafkaFacts, _ *Settings) { k.brokers[2].oldJoin = true }, want{"version", Fail}, nil},
		{"no KIP-848", func(k *kafkaFacts, s *Settings) {
			k.brokers[0].consumer, s.Protocol, k.group.newProtocol = false, "consumer", true
		}, want{"version", Fail}, nil},
		{"KIP-848 before 4.3", func(k *kafkaFacts, s *Settings) {
			k.brokers[0].guess, s.Protocol, k.group.newProtocol = "v4.1", "consumer", true
		}, want{"version", Warn}, nil},
		{"classic needs no KIP-848", func(k *kafkaFacts, _ *Settings) { k.brokers[0].consumer = false }, want{"version", OK}, nil},
		{"no topic", func(k *kafkaFacts, _ *Settings) { k.topic = topicFact{} }, want{"topic", Fail}, aside},
		{"no right to the topic", func(k *kafkaFacts, _ *Settings) { k.topic = topicFact{err: errors.New("denied")} }, want{"topic", Fail}, aside},
		{"a partition without a leader", func(k *kafkaFacts, _ *Settings) { k.topic.leaderless = []int32{3} }, want{"topic", Fail}, nil},
		{"positions with the replies, and no topic id", func(k *kafkaFacts, s *Settings) { k.topic.id, s.OffsetsInPostgres = false, true }, want{"topic", Warn}, nil},
		{"one copy", func(k *kafkaFacts, _ *Settings) {
			k.topic.replicas, k.topic.insync = 1, 1
			k.topic.config["min.insync.replicas"] = "1"
		}, want{"replication", Warn}, nil},
		{"a copy behind", func(k *kafkaFacts, _ *Settings) { k.topic.insync = 2 }, want{"replication", Warn}, nil},
		{"one copy of the commits", func(k *kafkaFacts, _ *Settings) { k.commits.replicas = 1 }, want{"replication", Warn}, nil},
		{"more wanted than there are", func(k *kafkaFacts, _ *Settings) { k.topic.config["min.insync.replicas"] = "4" }, want{"min.insync.replicas", Fail}, nil},
		{"more wanted than are in sync", func(k *kafkaFacts, _ *Settings) { k.topic.insync = 1 }, want{"min.insync.replicas", Fail}, []string{"replication"}},
		{"all wanted", func(k *kafkaFacts, _ *Settings) { k.topic.config["min.insync.replicas"] = "3" }, want{"min.insync.replicas", Warn}, nil},
		{"one is enough", func(k *kafkaFacts, _ *Settings) { k.topic.config["min.insync.replicas"] = "1" }, want{"min.insync.replicas", Warn}, nil},
		{"unclean elections", func(k *kafkaFacts, _ *Settings) { k.topic.config["unclean.leader.election.enable"] = "true" }, want{"min.insync.replicas", Warn}, nil},
		{"compacted", func(k *kafkaFacts, _ *Settings) { k.topic.config["cleanup.policy"] = "compact,delete" }, want{"cleanup.policy", Fail}, nil},
		{"kept for less than the retry window", func(k *kafkaFacts, s *Settings) { s.Deadline = 200 * time.Hour }, want{"retention", Fail}, nil},
		{"kept for an hour", func(k *kafkaFacts, _ *Settings) { k.topic.config["retention.ms"] = "3600000" }, want{"retention", Warn}, nil},
		{"kept for ever", func(k *kafkaFacts, _ *Settings) { k.topic.config["retention.ms"] = "-1" }, want{"retention", OK}, nil},
		{"cut by size", func(k *kafkaFacts, _ *Settings) { k.topic.config["retention.bytes"] = "1000" }, want{"retention", Warn}, nil},
		{"kept longer than the tasks", func(_ *kafkaFacts, s *Settings) { s.TaskRetention = 48 * time.Hour }, want{"retention", Warn}, nil},
		{"kept for ever, the tasks not", func(k *kafkaFacts, s *Settings) {
			s.TaskRetention, k.topic.config["retention.ms"] = 480*time.Hour, "-1"
		}, want{"retention", Warn}, nil},
		{"no dead-letter topic", func(k *kafkaFacts, _ *Settings) { k.dlq = topicFact{} }, want{"dead letters", Fail}, nil},
		{"compacted dead letters", func(k *kafkaFacts, _ *Settings) { k.dlq.config["cleanup.policy"] = "compact" }, want{"dead letters", Warn}, nil},
		{"dead letters too small", func(k *kafkaFacts, _ *Settings) { k.dlq.config["max.message.bytes"] = "1000" }, want{"dead letters", Warn}, nil},
		{"dead letters for a day", func(k *kafkaFacts, _ *Settings) { k.dlq.config["retention.ms"] = "86400000" }, want{"dead letters", Warn}, nil},
		{"somebody else's group", func(k *kafkaFacts, _ *Settings) { k.group.protocol = "range" }, want{"group", Fail}, nil},
		{"a group of another kind", func(k *kafkaFacts, _ *Settings) { k.group.protocolType = "connect" }, want{"group", Fail}, nil},
		{"a group half-way to the other protocol", func(k *kafkaFacts, _ *Settings) { k.group.newProtocol = true }, want{"group protocol", Warn}, nil},
		{"a session too short", func(_ *kafkaFacts, s *Settings) { s.Session = 5 * time.Second }, want{"session timeout", Fail}, nil},
		{"a session too long for one broker", func(k *kafkaFacts, _ *Settings) { k.brokers[2].config["group.max.session.timeout.ms"] = "10000" }, want{"session timeout", Fail}, nil},
		{"a session that does not count", func(k *kafkaFacts, s *Settings) {
			s.Session, s.Protocol, k.group.newProtocol = 5*time.Second, "consumer", true
		}, want{"session timeout", OK}, nil},
		{"little room in a commit", func(k *kafkaFacts, _ *Settings) { k.brokers[1].config["offset.metadata.max.bytes"] = "512" }, want{"settled ahead", Warn}, nil},
		{"too much for a commit", func(_ *kafkaFacts, s *Settings) { s.MaxInFlight = 5000 }, want{"settled ahead", Warn}, nil},
		{"commits soon forgotten", func(k *kafkaFacts, _ *Settings) { k.brokers[0].config["offsets.retention.minutes"] = "60" }, want{"offsets retention", Fail}, nil},
		{"commits forgotten over night", func(k *kafkaFacts, _ *Settings) { k.brokers[0].config["offsets.retention.minutes"] = "900" }, want{"offsets retention", Warn}, nil},
		{"brokers that do not say", func(k *kafkaFacts, _ *Settings) {
			for i := range k.brokers {
				k.brokers[i].config, k.brokers[i].configErr = nil, errors.New("denied")
			}
		}, want{"offsets retention", Unknown}, []string{"session timeout", "settled ahead"}},
		{"records from the future", func(k *kafkaFacts, _ *Settings) { k.newest = 3 * time.Second }, want{"clock", Warn}, nil},
		{"no record", func(k *kafkaFacts, _ *Settings) { k.newestErr = errEmpty }, want{"clock", Unknown}, nil},
	} {
		t.Run(c.about, func(t *testing.T) {
			k, s := soundKafka(), sound()
			c.change(&k, &s)
			verdicts(t, func(f *Findings) { judgeKafka(k, at9092, s, f) }, kafkaChecks, c.want, c.also...)
		})
	}
}

// TestRealKafkaIsRead: a real broker says what the judgement goes by, and a change of it is seen.
func TestRealKafkaIsRead(t *testing.T) {
	b := broker.Shared(t)
	topic := broker.Topic(t, b, 2)
	k := node.Kafka{Brokers: b.Addrs, Topic: topic, Group: topic}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	look := func() map[string]Check {
		found := map[string]Check{}
		for _, c := range Run(t.Context(), 20*time.Second, KafkaPart(k, sound(), nil, "", slog.New(slog.DiscardHandler))).Checks {
			found[c.Name] = c
		}
		return found
	}
	compare := func(found map[string]Check, want map[string]State) {
		t.Helper()
		for name, state := range want {
			if got := found[name]; got.State != state {
				t.Errorf("%s: %s (%s), want %s", name, got.State, got.Finding, state)
			}
		}
	}
	compare(look(), map[string]State{"reachable": OK, "version": OK, "topic": OK, "replication": Warn, "min.insync.replicas": OK, "cleanup.policy": OK,
		"retention": OK, "dead letters": OK, "group": OK, "session timeout": OK, "settled ahead": OK, "offsets retention": OK, "clock": OK})

	compact, short := "compact", "60000"
	admin := kadm.NewClient(client)
	if _, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{
		{Name: "cleanup.policy", Value: &compact}, {Name: "retention.ms", Value: &short},
	}, topic); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); look()["cleanup.policy"].State != Fail && time.Now().Before(deadline); {
	}
	compare(look(), map[string]State{"cleanup.policy": Fail, "retention": Fail})
}

func TestAKafkaThatIsNotThere(t *testing.T) {
	k := node.Kafka{Brokers: []string{"127.0.0.1:1"}, Topic: "t", Group: "g"}
	for _, invalid := range []error{nil, errors.New("--kafka-brokers is missing")} {
		r := Run(context.Background(), 20*time.Second, KafkaPart(k, sound(), invalid, "name them", slog.New(slog.DiscardHandler)))
		if len(r.Checks) != len(kafkaChecks) || r.Checks[0].State != Fail || r.Checks[0].Change == "" || r.Checks[1].State != Unknown {
			t.Errorf("%+v", r.Checks)
		}
	}
}
