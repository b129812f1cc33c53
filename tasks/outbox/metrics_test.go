package outbox_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fencepost/fencepost/tasks/postgres"
)

// gauge reads a series without labels; -1 when it is absent.
func gauge(t testing.TB, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetGauge().GetValue()
		}
	}
	return -1
}

func counters(t testing.TB, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.Metric {
				values[m.Label[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return values
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	config := w.config(postgres.NewOutbox(w.pool))
	config.Registerer = registry
	const series = "fencepost_outbox_published_total"

	w.fill(50, 5)
	d := w.start(config)
	w.emptied()
	w.until("all are counted", func() bool { return counters(t, registry, series)["ok"] == 50 })
	for _, result := range []string{"failed", "refused"} {
		if n, there := counters(t, registry, series)[result]; n != 0 || !there {
			t.Errorf("%s: %v %v, want a series at 0", result, n, there)
		}
	}
	if n := gauge(t, registry, "fencepost_outbox_shards"); n != 16 {
		t.Errorf("%v shards", n)
	}
	d.stop()
	w.fill(7, 7)
	if n := gauge(t, registry, "fencepost_outbox_pending"); n != 7 {
		t.Errorf("%v pending, want 7", n)
	}
	if age := gauge(t, registry, "fencepost_outbox_oldest_age_seconds"); age <= 0 || age > deadline.Seconds() {
		t.Errorf("oldest is %v s old", age)
	}
	w.pool.Close()
	if n := gauge(t, registry, "fencepost_outbox_pending"); n != -1 {
		t.Errorf("%v pending without a database, want no such series", n)
	}
}
