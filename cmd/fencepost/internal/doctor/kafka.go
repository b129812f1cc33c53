package doctor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
)

var kafkaChecks = []string{"reachable", "version", "topic", "replication", "min.insync.replicas", "cleanup.policy", "retention",
	"dead letters", "group", "group protocol", "session timeout", "settled ahead", "offsets retention", "clock"}

// KafkaPart looks at the brokers, the topics and the group. invalid is why the settings cannot be used, or nil.
func KafkaPart(k node.Kafka, s Settings, invalid error, hint string, log *slog.Logger) Part {
	return Part{Name: "kafka", Names: kafkaChecks, Look: func(ctx context.Context, f *Findings) {
		if invalid != nil {
			f.Add("reachable", Fail, hint, "%v", invalid)
			f.Rest("Kafka was not reached")
			return
		}
		facts, err := readKafka(ctx, k, log)
		if err != nil {
			f.Add("reachable", Fail, "check --kafka-brokers, that the broker runs, --kafka-tls and --kafka-sasl", "%s: %v", k.Address(), err)
			f.Rest("Kafka was not reached")
			return
		}
		judgeKafka(facts, k, s, f)
	}}
}

// kafkaFacts are what the brokers say. An error beside a fact says why it is not there.
type kafkaFacts struct {
	brokers []brokerFact

	topic, dlq, commits topicFact
	topicsErr           error

	group    groupFact
	groupErr error

	newest    time.Duration // the newest record's time less this machine's
	newestErr error         // errEmpty: there is no record
}

var errEmpty = errors.New("the topic is empty")

type brokerFact struct {
	id      int32
	address string
	err     error // it did not answer

	guess     string // of its version
	oldJoin   bool   // older than 2.4
	consumer  bool   // speaks KIP-848
	config    settings
	configErr error
}

type topicFact struct {
	exists     bool
	id         bool // it has one
	err        error
	partitions int
	replicas   int // of the partition with the fewest
	insync     int // the same
	leaderless []int32
	config     settings
	configErr  error
}

type groupFact struct {
	state, protocolType, protocol string
	members                       int
	newProtocol                   bool // KIP-848
}

// settings are configuration values by name.
type settings map[string]string

func (s settings) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(s[name], 10, 64)
	return n, err == nil
}

func (s settings) millis(name string) (time.Duration, bool) {
	n, ok := s.number(name)
	return time.Duration(n) * time.Millisecond, ok
}

func readKafka(ctx context.Context, k node.Kafka, log *slog.Logger) (kafkaFacts, error) {
	var facts kafkaFacts
	client, err := k.Client(log)
	if err != nil {
		return facts, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	meta, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return facts, err
	}
	facts.brokers = readBrokers(ctx, admin, meta.Brokers)
	readTopics(ctx, admin, k, &facts)
	facts.group, facts.groupErr = readGroup(ctx, admin, k.Group)
	facts.newest, facts.newestErr = readNewest(ctx, admin, k.Topic)
	return facts, nil
}

func readBrokers(ctx context.Context, admin *kadm.Client, list kadm.BrokerDetails) []brokerFact {
	versions, verr := admin.ApiVersions(ctx)
	var out []brokerFact
	for _, b := range list {
		fact := brokerFact{id: b.NodeID, address: b.Host + ":" + strconv.Itoa(int(b.Port))}
		v, ok := versions[b.NodeID]
		switch {
		case ok:
			fact.err = v.Err
		case verr != nil:
			fact.err = verr
		default:
			fact.err = errors.New("no answer")
		}
		if fact.err == nil {
			fact.guess = v.VersionGuess()
			join, _ := v.KeyMaxVersion(kmsg.JoinGroup.Int16())
			fact.oldJoin = join < 6
			_, fact.consumer = v.KeyMaxVersion(kmsg.ConsumerGroupHeartbeat.Int16())
			configs, err := admin.DescribeBrokerConfigs(ctx, b.NodeID)
			if err == nil && len(configs) > 0 {
				err = configs[0].Err
			}
			fact.configErr = err
			if err == nil && len(configs) > 0 {
				fact.config = settingsOf(configs[0])
			}
		}
		out = append(out, fact)
	}
	slices.SortFunc(out, func(a, b brokerFact) int { return int(a.id - b.id) })
	return out
}

func settingsOf(r kadm.ResourceConfig) settings {
	s := settings{}
	for _, c := range r.Configs {
		if c.Value != nil {
			s[c.Key] = *c.Value
		}
	}
	return s
}

// commitsTopic is where brokers keep the commits of groups.
const commitsTopic = "__consumer_offsets"

func readTopics(ctx context.Context, admin *kadm.Client, k node.Kafka, facts *kafkaFacts) {
	wanted := map[string]*topicFact{k.Topic: &facts.topic, k.DLQ(): &facts.dlq, commitsTopic: &facts.commits}
	details, err := admin.ListTopicsWithInternal(ctx, k.Topic, k.DLQ(), commitsTopic)
	if err != nil {
		facts.topicsErr = err
		return
	}
	for name, fact := range wanted {
		d := details[name]
		if errors.Is(d.Err, kerr.UnknownTopicOrPartition) || d.Err == nil && len(d.Partitions) == 0 {
			continue
		}
		if fact.err = d.Err; d.Err != nil {
			continue
		}
		fact.exists, fact.id, fact.partitions = true, d.ID != kadm.TopicID{}, len(d.Partitions)
		for i, p := range d.Partitions.Sorted() {
			if i == 0 || len(p.Replicas) < fact.replicas {
				fact.replicas = len(p.Replicas)
			}
			if i == 0 || len(p.ISR) < fact.insync {
				fact.insync = len(p.ISR)
			}
			if p.Leader < 0 || p.Err != nil {
				fact.leaderless = append(fact.leaderless, p.Partition)
			}
		}
	}
	for name, fact := range wanted {
		if !fact.exists || name == commitsTopic {
			continue
		}
		configs, err := admin.DescribeTopicConfigs(ctx, name)
		if err == nil && len(configs) > 0 {
			err = configs[0].Err
		}
		if fact.configErr = err; err == nil && len(configs) > 0 {
			fact.config = settingsOf(configs[0])
		}
	}
}

// readGroup asks for the group in both protocols' ways: each answers only for its own.
func readGroup(ctx context.Context, admin *kadm.Client, name string) (groupFact, error) {
	var fact groupFact
	if found, err := admin.DescribeConsumerGroups(ctx, name); err == nil {
		if g, ok := found[name]; ok && g.Err == nil && len(g.Members) > 0 {
			return groupFact{state: g.State, protocolType: "consumer", protocol: g.AssignorName, members: len(g.Members), newProtocol: true}, nil
		}
	}
	found, err := admin.DescribeGroups(ctx, name)
	if err != nil {
		return fact, err
	}
	g := found[name]
	if errors.Is(g.Err, kerr.GroupIDNotFound) {
		return groupFact{state: "Dead"}, nil
	}
	if g.Err != nil {
		return fact, g.Err
	}
	return groupFact{state: g.State, protocolType: g.ProtocolType, protocol: g.Protocol, members: len(g.Members)}, nil
}

// readNewest is how far in the future the newest record was written, by the clock of whoever wrote it. Brokers tell their
// own clock to nobody.
func readNewest(ctx context.Context, admin *kadm.Client, topic string) (time.Duration, error) {
	listed, err := admin.ListMaxTimestampOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	newest := int64(-1)
	listed.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			newest = max(newest, o.Timestamp)
		} else {
			err = o.Err
		}
	})
	switch {
	case newest >= 0:
		return time.Until(time.UnixMilli(newest)), nil
	case err != nil:
		return 0, err
	}
	return 0, errEmpty
}
