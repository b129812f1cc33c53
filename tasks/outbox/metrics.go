package outbox

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of a record, as fencepost_outbox_published_total counts them.
const (
	resultOK      = "ok"
	resultFailed  = "failed"  // did not get through; tried again
	resultRefused = "refused" // the broker would not have it; kept, tried again after a growing pause
)

type metrics struct {
	published  *prometheus.CounterVec
	stragglers prometheus.Counter
	recovered  prometheus.Counter
	shards     prometheus.Gauge
	parked     prometheus.Gauge
}

func newMetrics(c Config) (*metrics, error) {
	m := &metrics{
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fencepost_outbox_published_total",
			Help: "Records of handoffs by what came of them: ok, failed (tried again) or refused (kept, tried again later).",
		}, []string{"result"}),
		stragglers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fencepost_outbox_stragglers_total",
			Help: "Handoffs that a sweep found below what had been read already.",
		}),
		recovered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fencepost_outbox_recovered_total",
			Help: "Tasks that were handed off again because no record would have brought them back.",
		}),
		shards: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fencepost_outbox_shards",
			Help: "Shards of the outbox that this process reads.",
		}),
		parked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fencepost_outbox_parked_conversations",
			Help: "Conversations that wait behind a record which the broker refuses.",
		}),
	}
	for _, result := range []string{resultOK, resultFailed, resultRefused} {
		m.published.WithLabelValues(result)
	}
	if c.Registerer == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.published, m.stragglers, m.recovered, m.shards, m.parked, newBacklog(c.Store)} {
		if err := c.Registerer.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// backlog asks the store what is not published, once a scrape. When the store does not answer in time the two series
// are absent: an old number would look like a healthy one.
type backlog struct {
	store           Store
	pending, oldest *prometheus.Desc
}

func newBacklog(store Store) *backlog {
	return &backlog{
		store: store,
		pending: prometheus.NewDesc("fencepost_outbox_pending",
			"Committed handoffs that the broker has not acknowledged, counted up to a bound.", nil, nil),
		oldest: prometheus.NewDesc("fencepost_outbox_oldest_age_seconds",
			"Age of the oldest handoff that the broker has not acknowledged.", nil, nil),
	}
}

func (b *backlog) Describe(to chan<- *prometheus.Desc) {
	to <- b.pending
	to <- b.oldest
}

func (b *backlog) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	count, oldest, err := b.store.Pending(ctx)
	if err != nil {
		return
	}
	to <- prometheus.MustNewConstMetric(b.pending, prometheus.GaugeValue, float64(count))
	to <- prometheus.MustNewConstMetric(b.oldest, prometheus.GaugeValue, oldest.Seconds())
}
