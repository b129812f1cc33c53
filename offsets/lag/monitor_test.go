package lag

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// watched is a monitor of a kit whose election the test decides.
func (k *kit) watched() (*Monitor, *atomic.Bool) {
	var elected atomic.Bool
	elected.Store(true)
	return NewMonitor(MonitorConfig{Config: k.config, Elected: elected.Load}), &elected
}

// series lists what a registry has, as name{labels} value.
func series(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "fencepost_")
			for _, l := range m.GetLabel() {
				if l.GetName() == "partition" || l.GetName() == "status" {
					name += " " + l.GetValue()
				}
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

func TestCollector(t *testing.T) {
	k := newKit(t, 3)
	k.put(0, 0, 5)
	k.put(1, 10, 11)
	k.commit(0, 2, run(3, 5))
	k.commit(1, 50) // of another log: behind its end, and no negative lag
	m, elected := k.watched()
	s := series(t, m.Collector())
	for name, want := range map[string]float64{
		"consumer_lag_records 0": 3, "consumer_lag_records 1": 1, "consumer_lag_records 2": 0, "consumer_lag_seconds 2": 0,
		"consumer_committed_offset 0": 2, "consumer_end_offset 0": 5, "consumer_committed_ahead_records 0": 2,
		"consumer_partition_status 0 STOP": 1, "consumer_partition_status 0 OK": 0, "consumer_partition_status 1 REWIND": 1,
		"consumer_partition_status 2 OK": 1, "consumer_group_members": 0, "lag_elected": 1, "lag_read_errors_total": 0,
	} {
		if got, there := s[name]; !there || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, there, want)
		}
	}
	if s["consumer_head_age_seconds 0"] < 3600 {
		t.Errorf("head age %v", s["consumer_head_age_seconds 0"])
	}
	for _, absent := range []string{"consumer_committed_offset 2", "consumer_head_age_seconds 2"} {
		if v, there := s[absent]; there {
			t.Errorf("%s is %v", absent, v)
		}
	}
	one := 0.0
	for _, status := range Statuses {
		one += s["consumer_partition_status 0 "+string(status)]
	}
	if one != 1 {
		t.Errorf("%v statuses at once", one)
	}

	elected.Store(false)
	if s := series(t, m.Collector()); len(s) != 2 || s["lag_elected"] != 0 {
		t.Errorf("another is elected, and there are %v", s)
	}
}

// TestNoSeriesWithoutAnAnswer: an old number would look like a healthy one.
func TestNoSeriesWithoutAnAnswer(t *testing.T) {
	k := newKit(t, 1)
	k.put(0, 0, 5)
	m, _ := k.watched()
	if s := series(t, m.Collector()); s["consumer_lag_records 0"] != 5 {
		t.Fatalf("%v", s)
	}
	k.cluster.Close()
	deadline := time.Now().Add(20 * time.Second)
	for {
		s := series(t, m.Collector())
		if _, there := s["consumer_lag_records 0"]; !there {
			if s["lag_elected"] != 1 || s["lag_read_errors_total"] < 1 {
				t.Errorf("%v", s)
			}
			// The next scrape does not wait for the same silence.
			if again := series(t, m.Collector()); again["lag_read_errors_total"] != s["lag_read_errors_total"] {
				t.Errorf("it was read again: %v, then %v", s, again)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %v", s)
		}
	}
}

func TestPartitionsThatAreGoneLeaveNoSeries(t *testing.T) {
	k := newKit(t, 3)
	m, _ := k.watched()
	if s := series(t, m.Collector()); s["consumer_partition_status 2 OK"] != 1 {
		t.Fatalf("%v", s)
	}
	if _, err := k.admin.DeleteTopics(t.Context(), topicName); err != nil {
		t.Fatal(err)
	}
	if _, err := k.admin.CreateTopic(t.Context(), 1, 1, nil, topicName); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		s := series(t, m.Collector())
		_, first := s["consumer_lag_records 0"]
		_, third := s["consumer_lag_records 2"]
		if first && !third {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v", s)
		}
	}
}

func TestManyWhoAskShareAReading(t *testing.T) {
	k := newKit(t, 1)
	k.put(0, 0, 5)
	m, _ := k.watched()
	reads := k.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Observe: true, Count: -1})
	var wg sync.WaitGroup
	errs := make(chan error, 20)
	for range cap(errs) {
		wg.Go(func() {
			if r, err := m.Report(t.Context()); err != nil || r.TotalLag != 5 {
				errs <- fmt.Errorf("lag %d: %w", r.TotalLag, err)
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	// 20 readings would be 20; a slow machine may need a second one.
	if n := reads.Hits(); n > 3 {
		t.Errorf("%d readings", n)
	}
}

func TestMonitorSamplesWhileElected(t *testing.T) {
	k := newKit(t, 1)
	k.put(0, 0, 5)
	var elected atomic.Bool
	m := NewMonitor(MonitorConfig{Config: k.config, Elected: elected.Load, Every: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	if _, err := m.Report(t.Context()); !errors.Is(err, ErrNotElected) {
		t.Errorf("not elected: %v", err)
	}
	wait := func(what string, good func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !good(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited for: %s", what)
			}
		}
	}
	if n := len(m.History().Samples(0)); n != 0 {
		t.Errorf("%d samples before", n)
	}
	elected.Store(true)
	wait("samples", func() bool { return len(m.History().Samples(0)) >= 2 })
	elected.Store(false)
	wait("a history without holes", func() bool { return len(m.History().Samples(0)) == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
