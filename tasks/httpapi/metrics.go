package httpapi

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are fencepost_http_*. route is one of the routes' own names, so the series are as many as the code has; so are the
// codes of problems.
type metrics struct {
	requests *prometheus.CounterVec
	problems *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	batches  prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, waiting, polled, queued func() float64) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fencepost_http_requests_total", Help: "Requests answered, by route and status.",
		}, []string{"route", "status"}),
		problems: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fencepost_http_problems_total", Help: "Requests that were not answered as asked, by the problem's code.",
		}, []string{"code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fencepost_http_request_seconds", Help: "Time to the answer, by route; with wait, the wait is in it.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"route"}),
		batches: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fencepost_http_submit_batch_size", Help: "Submissions in one transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.problems, m.seconds, m.batches,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fencepost_http_waiting_requests", Help: "Requests that wait for their task, in wait and in streams.",
		}, waiting),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "fencepost_http_waiting_queries_total", Help: "Queries for all who wait together; what each asks for itself is not among them.",
		}, polled),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fencepost_http_submit_queue", Help: "Submissions that are not in a transaction yet.",
		}, queued),
	} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) request(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

func (m *metrics) problem(code string) { m.problems.WithLabelValues(code).Inc() }

func (m *metrics) batch(n int) { m.batches.Observe(float64(n)) }
