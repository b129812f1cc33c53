package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/offsets"
)

const (
	// window is how far a partition is read beyond its first unsettled record (consumer.Config.MaxWindow).
	window = 65_536
	// metadataLimit is the most that a commit of ours says of what is settled ahead (offsets/kafka).
	metadataLimit = 4096
	// recommit is the age at which a position that stands still is committed again (consumer.Config.RecommitAfter).
	recommit = 6 * time.Hour
)

func judgeKafka(k kafkaFacts, at node.Kafka, s Settings, f *Findings) {
	judgeBrokers(k.brokers, s, f)
	judgeTopic(k, at, s, f)
	judgeDLQ(k, at, f)
	judgeGroup(k, s, f)
	judgeGroupSettings(k, s, f)
	switch {
	case errors.Is(k.newestErr, errEmpty):
		f.Add("clock", Unknown, "", "brokers tell their clock to nobody, and there is no record whose time could be read")
	case k.newestErr != nil:
		f.Add("clock", Unknown, "", "the newest record's time could not be read: %v", k.newestErr)
	case k.newest > clockApart:
		f.Add("clock", Warn, "have the dispatchers' machines and this one keep time by NTP; lag in seconds and retention by time go by the records' times",
			"the newest record is from %s in the future of this machine", k.newest.Round(time.Millisecond))
	default:
		f.Add("clock", OK, "", "the newest record is %s old by this machine's clock", max(0, -k.newest).Round(time.Second))
	}
}

func judgeBrokers(list []brokerFact, s Settings, f *Findings) {
	var lost, guesses []string
	old, without := false, false
	for _, b := range list {
		if b.err != nil {
			lost = append(lost, fmt.Sprintf("broker %d at %s: %v", b.id, b.address, b.err))
			continue
		}
		old, without = old || b.oldJoin, without || !b.consumer
		if !slices.Contains(guesses, b.guess) {
			guesses = append(guesses, b.guess)
		}
	}
	if len(lost) > 0 {
		f.Add("reachable", Fail, "the brokers' advertised listeners must be reachable from here: check advertised.listeners, DNS and the firewall",
			"%s", strings.Join(lost, "; "))
	} else {
		f.Add("reachable", OK, "", "%s: %d broker(s)", at(list), len(list))
	}
	version := strings.Join(guesses, ", ")
	switch {
	case len(guesses) == 0:
		f.Add("version", Unknown, "", "no broker answered")
	case old:
		f.Add("version", Fail, "upgrade the brokers to 2.4 or later", "by what they speak, %s: too old for cooperative rebalances", version)
	case s.Protocol == "consumer" && without:
		f.Add("version", Fail, "use --group-protocol classic, or upgrade to Kafka 4.0 and enable the protocol (group.coordinator.rebalance.protocols)",
			"by what they speak, %s: without the consumer group protocol (KIP-848) that --group-protocol consumer wants", version)
	case s.Protocol == "consumer" && slices.ContainsFunc(guesses, beforeKIP1251):
		f.Add("version", Warn, "upgrade to 4.3, or use --group-protocol classic",
			"by what they speak, %s: before 4.3 a commit that meets a rebalance may be refused under KIP-848", version)
	default:
		f.Add("version", OK, "", "by what they speak, %s", version)
	}
}

func at(list []brokerFact) string {
	var out []string
	for _, b := range list {
		out = append(out, b.address)
	}
	return strings.Join(out, ", ")
}

func beforeKIP1251(guess string) bool {
	return slices.ContainsFunc([]string{"v4.0", "v4.1", "v4.2"}, func(v string) bool { return strings.Contains(guess, v) })
}

func judgeTopic(k kafkaFacts, at node.Kafka, s Settings, f *Findings) {
	t := k.topic
	judged := []string{"replication", "min.insync.replicas", "cleanup.policy", "retention"}
	rest := func(why string) {
		for _, name := range judged {
			f.Add(name, Unknown, "", "%s", why)
		}
	}
	switch {
	case k.topicsErr != nil || t.err != nil:
		f.Add("topic", Fail, "check the user's rights: Describe on the topic", "%s: %v", at.Topic, errors.Join(k.topicsErr, t.err))
		rest("the topic could not be read")
		return
	case !t.exists:
		f.Add("topic", Fail, "fencepost topics create --kafka-brokers "+at.Address()+" --kafka-topic "+at.Topic, "there is no topic %s", at.Topic)
		rest("there is no topic")
		return
	case len(t.leaderless) > 0:
		f.Add("topic", Fail, "bring their brokers back", "%s: %d of %d partitions have no leader: %v", at.Topic, len(t.leaderless), t.partitions, t.leaderless)
	case s.OffsetsInPostgres && !t.id:
		f.Add("topic", Warn, "upgrade the brokers to 2.8 or later", "%s has no id: with --offsets postgres, a topic that is made again passes for the one before", at.Topic)
	default:
		f.Add("topic", OK, "", "%s: %d partition(s), so at most that many workers share the work", at.Topic, t.partitions)
	}
	switch {
	case t.insync < t.replicas:
		f.Add("replication", Warn, "bring the brokers back that are behind", "%d copies, of which only %d are in sync for some partition", t.replicas, t.insync)
	case t.replicas < 2 && len(k.brokers) > 1:
		f.Add("replication", Warn, "raise it (kafka-reassign-partitions), or make the topic anew with --replication-factor 3", "one copy, although there are %d brokers", len(k.brokers))
	case t.replicas < 2:
		f.Add("replication", Warn, "for anything but a trial, run three brokers and --replication-factor 3",
			"one copy on one broker: the records that it loses are handed off again, and nothing works while it is away")
	case k.commits.exists && k.commits.replicas < 2:
		f.Add("replication", Warn, "raise the replication of "+commitsTopic, "%d copies, but only one of %s, where positions are", t.replicas, commitsTopic)
	default:
		f.Add("replication", OK, "", "%d copies", t.replicas)
	}
	if t.config == nil {
		rest(fmt.Sprintf("the topic's settings could not be read (DescribeConfigs on the topic): %v", t.configErr))
		return
	}
	judgeMinISR(t, f)
	if policy := t.config["cleanup.policy"]; policy != "delete" {
		f.Add("cleanup.policy", Fail, alter(at, at.Topic, "cleanup.policy=delete"),
			"%s: compaction keeps only the last record of a conversation, and takes the others before they are read", policy)
	} else {
		f.Add("cleanup.policy", OK, "", "delete")
	}
	judgeRetention(t, at, s, f)
}

func judgeMinISR(t topicFact, f *Findings) {
	n, known := t.config.number("min.insync.replicas")
	const name = "min.insync.replicas"
	switch {
	case !known:
		f.Add(name, Unknown, "", "the broker does not say")
	case int(n) > t.replicas:
		f.Add(name, Fail, "lower it, or raise the replication", "%d of %d copies: nothing can be written with all of them acknowledging", n, t.replicas)
	case int(n) > t.insync:
		f.Add(name, Fail, "bring the brokers back", "%d are wanted and %d are in sync: nothing can be written to some partition", n, t.insync)
	case t.replicas > 1 && int(n) == t.replicas:
		f.Add(name, Warn, "lower it by one, or add a copy", "%d of %d copies: a restart of one broker stops the writing", n, t.replicas)
	case t.replicas > 2 && n < 2:
		f.Add(name, Warn, "set it to 2", "%d of %d copies: what only one broker has acknowledged is lost with it, and handed off again", n, t.replicas)
	case t.config["unclean.leader.election.enable"] == "true":
		f.Add(name, Warn, "set unclean.leader.election.enable=false", "%d of %d copies; but unclean leader elections may lose records that were acknowledged", n, t.replicas)
	default:
		f.Add(name, OK, "", "%d of %d copies", n, t.replicas)
	}
}

func judgeRetention(t topicFact, at node.Kafka, s Settings, f *Findings) {
	keep, known := t.config.millis("retention.ms")
	forever := keep < 0
	size, sized := t.config.number("retention.bytes")
	change := alter(at, at.Topic, "retention.ms=604800000")
	switch {
	case !known:
		f.Add("retention", Unknown, "", "the broker does not say")
	case !forever && keep < s.Deadline:
		f.Add("retention", Fail, change,
			"records are kept for %s, while a task may be retried for %s: what waits longer is deleted unread and has to be handed off again", keep, s.Deadline)
	case sized && size >= 0:
		f.Add("retention", Warn, alter(at, at.Topic, "retention.bytes=-1"), "a partition is cut at %d bytes, whether its records were read or not", size)
	case !forever && keep < 24*time.Hour && s.Deadline <= keep:
		f.Add("retention", Warn, change, "records are kept for %s: a night with no worker, and replay by offset, reach no further back", keep)
	case s.TaskRetention > 0 && (forever || keep > s.TaskRetention):
		f.Add("retention", Warn, "raise --task-retention above the topic's retention, or lower that",
			"records are kept %s and their tasks only %s: a record that is read again finds no task and becomes a dead letter", records(keep), keptFor(s.TaskRetention))
	default:
		f.Add("retention", OK, "", "records are kept %s; a task may be retried for %s", records(keep), s.Deadline)
	}
}

func records(keep time.Duration) string {
	if keep < 0 {
		return "for ever"
	}
	return "for " + keep.String()
}

func alter(at node.Kafka, topic, setting string) string {
	return "kafka-configs.sh --bootstrap-server " + at.Address() + " --alter --entity-type topics --entity-name " + topic + " --add-config " + setting
}

func judgeDLQ(k kafkaFacts, at node.Kafka, f *Findings) {
	t := k.dlq
	most, known := t.config.number("max.message.bytes")
	records, both := k.topic.config.number("max.message.bytes")
	switch keep, timed := t.config.millis("retention.ms"); {
	case k.topicsErr != nil || t.err != nil:
		f.Add("dead letters", Fail, "check the user's rights: Describe and Write on the topic", "%s: %v", at.DLQ(), errors.Join(k.topicsErr, t.err))
	case !t.exists:
		f.Add("dead letters", Fail, "fencepost topics create --kafka-brokers "+at.Address()+" --kafka-topic "+at.Topic,
			"there is no topic %s: a record that cannot be read holds its partition until there is one", at.DLQ())
	case len(t.leaderless) > 0:
		f.Add("dead letters", Fail, "bring their brokers back", "%s: partitions without a leader: %v", at.DLQ(), t.leaderless)
	case t.config == nil:
		f.Add("dead letters", Unknown, "", "%s: its settings could not be read (DescribeConfigs): %v", at.DLQ(), t.configErr)
	case t.config["cleanup.policy"] != "delete":
		f.Add("dead letters", Warn, alter(at, at.DLQ(), "cleanup.policy=delete"), "%s: %s: compaction takes the dead letters of one conversation but the last",
			at.DLQ(), t.config["cleanup.policy"])
	case known && both && most < records:
		f.Add("dead letters", Warn, alter(at, at.DLQ(), fmt.Sprintf("max.message.bytes=%d", records)),
			"%s takes %d bytes and the topic %d: what is larger is kept without its content", at.DLQ(), most, records)
	case timed && keep >= 0 && keep < 7*24*time.Hour:
		f.Add("dead letters", Warn, alter(at, at.DLQ(), "retention.ms=2592000000"), "%s keeps them for %s, which is little for something that a person looks at", at.DLQ(), keep)
	default:
		f.Add("dead letters", OK, "", "%s: %d partition(s)", at.DLQ(), t.partitions)
	}
}

func judgeGroup(k kafkaFacts, s Settings, f *Findings) {
	g := k.group
	switch {
	case k.groupErr != nil:
		f.Add("group", Unknown, "give the user Describe on the group", "it could not be described: %v", k.groupErr)
	case g.members == 0:
		f.Add("group", OK, "", "no member at the moment")
	case g.protocolType != "" && g.protocolType != "consumer":
		f.Add("group", Fail, "choose another --kafka-group", "it belongs to a %q, not to consumers", g.protocolType)
	case !g.newProtocol && g.protocol != "" && g.protocol != "cooperative-sticky":
		f.Add("group", Fail, "choose another --kafka-group, or stop its members first",
			"its %d members assign partitions by %q; a worker joins with cooperative-sticky only", g.members, g.protocol)
	default:
		f.Add("group", OK, "", "%s, %d member(s)", g.state, g.members)
	}
	switch {
	case k.groupErr != nil || g.members == 0:
		f.Add("group protocol", OK, "", "%s", s.Protocol)
	case g.newProtocol != (s.Protocol == "consumer"):
		f.Add("group protocol", Warn, "let all workers have one --group-protocol once the change is done",
			"its members speak %s, and --group-protocol says %s: that is how a group is moved, and no state to stay in", protocolOf(g), s.Protocol)
	default:
		f.Add("group protocol", OK, "", "%s", s.Protocol)
	}
}

func protocolOf(g groupFact) string {
	if g.newProtocol {
		return "consumer (KIP-848)"
	}
	return "classic"
}

// judgeGroupSettings looks at what the brokers allow groups, by the strictest of them: any may have to coordinate ours.
func judgeGroupSettings(k kafkaFacts, s Settings, f *Findings) {
	names := []string{"session timeout", "settled ahead", "offsets retention"}
	var configs []settings
	var failed error
	for _, b := range k.brokers {
		if b.config != nil {
			configs = append(configs, b.config)
		} else if failed = errors.Join(failed, b.err, b.configErr); failed == nil {
			failed = errors.New("no answer")
		}
	}
	if len(configs) == 0 {
		for _, name := range names {
			f.Add(name, Unknown, "give the user DescribeConfigs on the cluster", "the brokers' settings could not be read: %v", failed)
		}
		return
	}
	least := func(name string) (int64, bool) { return extreme(configs, name, func(a, b int64) bool { return a < b }) }
	most := func(name string) (int64, bool) { return extreme(configs, name, func(a, b int64) bool { return a > b }) }

	if s.Protocol == "consumer" {
		if ms, ok := most("group.consumer.session.timeout.ms"); ok {
			d := time.Duration(ms) * time.Millisecond
			f.Add("session timeout", OK, "", "the brokers', %s: --session-timeout does not count under KIP-848", d)
		}
	} else if low, ok := most("group.min.session.timeout.ms"); ok {
		high, bounded := least("group.max.session.timeout.ms")
		switch ms := s.Session.Milliseconds(); {
		case ms < low, bounded && ms > high:
			f.Add("session timeout", Fail, fmt.Sprintf("set --session-timeout within %dms and %dms", low, high),
				"%s is not within what the brokers allow, %dms to %dms: no worker can join", s.Session, low, high)
		default:
			f.Add("session timeout", OK, "", "%s, within what the brokers allow", s.Session)
		}
	}
	f.Add("session timeout", Unknown, "", "the brokers do not say what they allow")

	if limit, ok := least("offset.metadata.max.bytes"); ok {
		judgeMetadata(limit, s, f)
	}
	f.Add("settled ahead", Unknown, "", "the brokers do not say offset.metadata.max.bytes")

	if minutes, ok := least("offsets.retention.minutes"); ok {
		d := time.Duration(minutes) * time.Minute
		switch {
		case d < 2*recommit:
			f.Add("offsets retention", Fail, "set offsets.retention.minutes=10080 on the brokers",
				"commits are forgotten after %s, and one that does not move is repeated only every %s: a quiet partition would be read from its start", d, recommit)
		case d < 24*time.Hour:
			f.Add("offsets retention", Warn, "set offsets.retention.minutes=10080 on the brokers",
				"commits of a group without members are forgotten after %s: stopped for longer, it reads its partitions from the start", d)
		default:
			f.Add("offsets retention", OK, "", "%s without a member", d)
		}
	}
	f.Add("offsets retention", Unknown, "", "the brokers do not say offsets.retention.minutes")
}

// judgeMetadata compares what a commit may carry with what the settled records beyond a position need at most: each of
// the calls open at once splits them.
func judgeMetadata(limit int64, s Settings, f *Findings) {
	need := int64(metadataNeed(s.MaxInFlight))
	switch {
	case limit >= metadataLimit && need <= metadataLimit:
		f.Add("settled ahead", OK, "", "offset.metadata.max.bytes is %d; %d calls at once need about %d", limit, s.MaxInFlight, need)
	case limit < metadataLimit:
		f.Add("settled ahead", Warn, "set offset.metadata.max.bytes=4096 on the brokers",
			"offset.metadata.max.bytes is %d; what is settled beyond a position needs up to %d, and commits that are refused are repeated without: after a crash those records are read and looked up again", limit, metadataLimit)
	default:
		f.Add("settled ahead", Warn, "lower --max-in-flight and run more workers, or --offsets postgres",
			"%d calls at once need about %d bytes of a commit's %d: after a crash the farthest of the settled records are read and looked up again", s.MaxInFlight, need, metadataLimit)
	}
}

// metadataNeed is how long the text is that says what is settled around so many unsettled records, spread over a window.
func metadataNeed(inFlight int) int {
	step := int64(max(2, window/max(1, inFlight)))
	runs := make([]offsets.Run, 0, inFlight)
	for i := range int64(min(inFlight, window/2)) {
		runs = append(runs, offsets.Run{From: i*step + 1, To: (i + 1) * step})
	}
	return len(offsets.EncodeRuns(0, runs, 1<<20))
}

func extreme(configs []settings, name string, better func(a, b int64) bool) (best int64, ok bool) {
	for _, c := range configs {
		if n, known := c.number(name); known && (!ok || better(n, best)) {
			best, ok = n, true
		}
	}
	return best, ok
}
