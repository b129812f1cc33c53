package broker

import "maps"

// Option changes how a broker of a test's own is set up.
type Option func(*settings)

type settings struct{ extra map[string]string }

// Config sets one of the broker's settings, by its name in server.properties.
func Config(name, value string) Option {
	return func(s *settings) {
		if s.extra == nil {
			s.extra = map[string]string{}
		}
		s.extra[name] = value
	}
}

// config is what every broker has, whatever runs it; the extra ones win.
func (s settings) config() map[string]string {
	c := map[string]string{
		// One node, so one copy of everything, and few partitions of what is internal: they are loaded at each start.
		"offsets.topic.replication.factor":                 "1",
		"offsets.topic.num.partitions":                     "4",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"transaction.state.log.num.partitions":             "4",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"auto.create.topics.enable":                        "false",
		// The production defaults would make each test of a group wait for seconds.
		"group.initial.rebalance.delay.ms":         "0",
		"group.min.session.timeout.ms":             "1000",
		"group.consumer.min.session.timeout.ms":    "1000",
		"group.consumer.min.heartbeat.interval.ms": "500",
		"group.consumer.assignment.interval.ms":    "0",
		// A killed node cannot register again before its old registration has expired.
		"broker.session.timeout.ms":    "2000",
		"broker.heartbeat.interval.ms": "500",
	}
	maps.Copy(c, s.extra)
	return c
}
