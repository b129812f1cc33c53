package lag

import (
	"context"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// collector makes the series at each scrape from one report, so that a partition that is gone has none, and a lag that
// cannot be read has none either: 0 would look like health.
type collector struct {
	m *Monitor

	lag, seconds, committed, end, ahead, headAge, status *prometheus.Desc
	members, elected, errors                             *prometheus.Desc
}

// Collector exposes what m reads. While m is not elected there is only the series that says so.
func (m *Monitor) Collector() prometheus.Collector {
	partition := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("fencepost_consumer_"+name, help, append([]string{"group", "topic", "partition"}, more...), nil)
	}
	group := prometheus.Labels{"group": m.config.Group, "topic": m.config.Topic}
	return &collector{
		m:         m,
		lag:       partition("lag_records", "Records from the committed position to the end, of every partition whether a worker has it or not."),
		seconds:   partition("lag_seconds", "Age of the record at the position; 0 with none."),
		committed: partition("committed_offset", "Position that the group has committed; absent without one."),
		end:       partition("end_offset", "End of the partition's log."),
		ahead:     partition("committed_ahead_records", "Offsets beyond the committed position that are settled, as the commit and the database say."),
		headAge:   partition("head_age_seconds", "Age of the record that holds the position back; absent with none."),
		status:    partition("partition_status", "1 for what is judged of the partition, 0 for the other statuses.", "status"),
		members:   prometheus.NewDesc("fencepost_consumer_group_members", "Members of the group.", nil, group),
		elected:   prometheus.NewDesc("fencepost_lag_elected", "1 where this process reads the lag for all, else 0.", nil, group),
		errors:    prometheus.NewDesc("fencepost_lag_read_errors_total", "Readings of the lag that failed.", nil, group),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.lag, c.seconds, c.committed, c.end, c.ahead, c.headAge, c.status, c.members, c.elected, c.errors} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	constant := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	r, err := c.m.Report(ctx)
	is := 0.0
	if c.m.Elected() {
		is = 1
	}
	constant(c.elected, prometheus.GaugeValue, is)
	constant(c.errors, prometheus.CounterValue, float64(c.m.failures()))
	if err != nil {
		return
	}
	if r.State != string(Unknown) {
		constant(c.members, prometheus.GaugeValue, float64(r.Members))
	}
	for _, p := range r.Partitions {
		labels := []string{r.Group, r.Topic, strconv.Itoa(int(p.Partition))}
		gauge := func(d *prometheus.Desc, known bool, v float64) {
			if known {
				constant(d, prometheus.GaugeValue, v, labels...)
			}
		}
		gauge(c.lag, p.Lag >= 0, float64(p.Lag))
		gauge(c.seconds, p.LagSeconds.Known(), float64(p.LagSeconds))
		gauge(c.committed, p.Committed >= 0, float64(p.Committed))
		gauge(c.end, p.End >= 0, float64(p.End))
		gauge(c.ahead, p.SettledAhead >= 0, float64(p.SettledAhead))
		if p.Head != nil {
			gauge(c.headAge, true, float64(p.Head.AgeSeconds))
		}
		for _, s := range Statuses {
			v := 0.0
			if p.Status == s {
				v = 1
			}
			constant(c.status, prometheus.GaugeValue, v, append(labels[:3:3], string(s))...)
		}
	}
}
