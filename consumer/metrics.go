package consumer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// metrics holds what is counted as it happens. What can be read from the assignments is collected at each scrape
// instead, so that a partition that moved away leaves no series behind.
type metrics struct {
	records, commits, rebalances, transitions, attempts, storeErrors, beginEvents, recoveries *prometheus.CounterVec

	wireRequests, staleSettles, drainTimeouts, fencedPlaces, strayCalls prometheus.Counter
	queueWait, llmCall, endToEnd                                        prometheus.Histogram
}

// seconds are the bounds of the histograms: from a call that fails at once to a user who waited an hour.
var seconds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600}

func newMetrics(r prometheus.Registerer) *metrics {
	vec := func(name, help, label string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fencepost_" + name, Help: help}, append([]string{label}, more...))
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "fencepost_" + name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "fencepost_" + name, Help: help, Buckets: seconds})
	}
	m := &metrics{
		records:     vec("records_total", "Records settled, by what they came to.", "outcome"),
		commits:     vec("commits_total", "Commits of positions, by result.", "result"),
		rebalances:  vec("rebalances_total", "Group callbacks, by kind.", "kind"),
		transitions: vec("task_transitions_total", "Transitions of tasks made by this worker.", "from", "to"),
		attempts:    vec("llm_attempts_total", "Provider calls ended, by outcome: answered, or the failure's class.", "outcome"),
		storeErrors: vec("consumer_store_errors_total", "Statements of the task store that failed and are tried again.", "operation"),

		recoveries: vec("llm_recoveries_total", "Look-ups of calls whose answers were lost, by what was found.", "found"),

		beginEvents: vec("consumer_begin_events_total", "Assignments that do not begin at the committed position, by reason.", "reason"),

		fencedPlaces:  counter("consumer_fenced_places_total", "Stores of positions refused because another worker owns the partition."),
		strayCalls:    counter("consumer_stray_calls_total", "Calls that did not end when they were told to, and were given up."),
		wireRequests:  counter("llm_wire_requests_total", "Requests that reached the wire."),
		staleSettles:  counter("stale_settles_refused_total", "Settles refused because the assignment was no longer the current one."),
		drainTimeouts: counter("consumer_drain_timeouts_total", "Drains that ended with work still running."),

		queueWait: histogram("queue_wait_seconds", "From the time a task could be claimed to its claim."),
		llmCall:   histogram("llm_call_seconds", "Duration of a provider call."),
		endToEnd:  histogram("task_end_to_end_seconds", "From the time a task could be claimed to its saved reply."),
	}
	for _, v := range []string{"settled", "finished", "handed_off", "dead_lettered", "skipped"} {
		m.records.WithLabelValues(v)
	}
	for _, v := range []string{"ok", "error"} {
		m.commits.WithLabelValues(v)
	}
	for _, v := range []string{"assigned", "revoked", "lost"} {
		m.rebalances.WithLabelValues(v)
	}
	for _, to := range []tasks.Status{tasks.StatusCompleted, tasks.StatusFailed, tasks.StatusQueued} {
		m.transitions.WithLabelValues(string(tasks.StatusRunning), string(to))
	}
	m.attempts.WithLabelValues("answered")
	m.attempts.WithLabelValues(tasks.ClassDeadline)
	for _, class := range llm.Classes {
		m.attempts.WithLabelValues(string(class))
	}
	for _, event := range beginEvents {
		m.beginEvents.WithLabelValues(event)
	}
	for _, found := range []string{"found", "ended", "no_trace", "unknown", "elsewhere"} {
		m.recoveries.WithLabelValues(found)
	}
	for _, op := range []string{"claim", "renew", "settle", "place", "note", "histories", "live"} {
		m.storeErrors.WithLabelValues(op)
	}
	if r != nil {
		r.MustRegister(m.records, m.commits, m.rebalances, m.transitions, m.attempts, m.storeErrors, m.beginEvents, m.recoveries,
			m.wireRequests, m.staleSettles, m.drainTimeouts, m.fencedPlaces, m.strayCalls, m.queueWait, m.llmCall, m.endToEnd)
	}
	return m
}

// partitionCollector reads the assignments at each scrape: what only the worker that has a partition knows of it. Lag,
// commit, end and head of every partition come from the one process that reads them for all (offsets/lag), under other
// names of the same family: a partition whose worker died must go on having those.
type partitionCollector struct {
	c *Consumer

	inFlight, settledAhead, position *prometheus.Desc
}

func newPartitionCollector(c *Consumer) *partitionCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("fencepost_consumer_"+name, help, []string{"group", "topic", "partition"}, nil)
	}
	return &partitionCollector{
		c:            c,
		inFlight:     desc("in_flight_records", "Unsettled records held by this worker."),
		settledAhead: desc("settled_ahead_records", "Records settled beyond the position."),
		position:     desc("position", "First unsettled offset."),
	}
}

// Describe implements prometheus.Collector.
func (p *partitionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.inFlight, p.settledAhead, p.position} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *partitionCollector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range p.c.Partitions() {
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, p.c.cfg.Group, s.Topic, s.label())
		}
		gauge(p.inFlight, float64(s.InFlight))
		gauge(p.settledAhead, float64(s.SettledAhead))
		if s.Position >= 0 {
			gauge(p.position, float64(s.Position))
		}
	}
}

// PartitionState is one partition of this worker at one moment.
type PartitionState struct {
	Topic        string
	Partition    int32
	Position     int64 // -1: nothing received yet
	Committed    int64 // -1: the group has no commit
	End          int64 // -1: nothing received yet
	InFlight     int
	SettledAhead int
	Head         int64         // offset of the record that holds the position back, -1 with none
	HeadAge      time.Duration // since the record's own time
	Paused       bool
	Begin        string // why it did not begin at its committed position, "" when it did
}
