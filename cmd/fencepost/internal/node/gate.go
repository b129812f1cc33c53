package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencepost/fencepost/llm"
)

// breakerReasons are the words of llm.GateState.Reason.
var breakerReasons = []string{"quota", "config", "unreachable", "failing"}

// gateCollector reads the worker's gate at each scrape.
type gateCollector struct {
	gate         *llm.Gate
	open, paused *prometheus.Desc
	opened       *prometheus.Desc
}

func newGateCollector(gate *llm.Gate, provider string) *gateCollector {
	labels := prometheus.Labels{"provider": provider}
	return &gateCollector{
		gate: gate,
		open: prometheus.NewDesc("fencepost_llm_breaker_open",
			"1 while no call is made because of what the last ones came to, by reason; also while one call tries whether that is over.",
			[]string{"reason"}, labels),
		opened: prometheus.NewDesc("fencepost_llm_breaker_opened_total", "How often the breaker opened.", nil, labels),
		paused: prometheus.NewDesc("fencepost_llm_paused_seconds", "How long the provider still wants no call; 0 when it says nothing.", nil, labels),
	}
}

// Describe implements prometheus.Collector.
func (c *gateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.open
	ch <- c.opened
	ch <- c.paused
}

// Collect implements prometheus.Collector.
func (c *gateCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.gate.State()
	for _, reason := range breakerReasons {
		v := 0.0
		if s.Reason == reason {
			v = 1
		}
		ch <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, v, reason)
	}
	ch <- prometheus.MustNewConstMetric(c.opened, prometheus.CounterValue, float64(s.Opened))
	ch <- prometheus.MustNewConstMetric(c.paused, prometheus.GaugeValue, max(0, time.Until(s.PausedUntil).Seconds()))
}
