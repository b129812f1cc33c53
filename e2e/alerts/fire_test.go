package alerts

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/e2e/procs"
)

func TestMain(m *testing.M) { os.Exit(procs.Main(m).Run()) }

const deadline = 3 * time.Minute

// world is an installation with one process for each role, and a Prometheus that judges it at once.
type world struct {
	*procs.World
	t                       *testing.T
	api, dispatcher, worker *procs.Node
	client                  *procs.Client
	prometheus              *Prometheus
	keys                    int
}

var patience = regexp.MustCompile(`for: [0-9]+m`)

// newWorld has every alert wait for two seconds only, and takes an outbox that is five seconds old for stuck.
func newWorld(t *testing.T) *world {
	w := &world{World: procs.NewOwnWorld(t, procs.Own{Broker: true}, 6, "--session-timeout", "6s", "--lease", "6s"), t: t}
	w.api, w.dispatcher, w.worker = w.Node("api", "api"), w.Node("dispatcher", "dispatcher"), w.Node("worker", "worker")
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	targets := []string{}
	for _, n := range []*procs.Node{w.api, w.dispatcher, w.worker} {
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		targets = append(targets, strings.TrimPrefix(n.Admin, "http://"))
	}
	for _, n := range []*procs.Node{w.api, w.dispatcher, w.worker} {
		if err := n.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w.client = &procs.Client{Key: w.Key, Nodes: []*procs.Node{w.api}}
	w.prometheus = StartPrometheus(t, targets, func(_, content string) string {
		content = patience.ReplaceAllString(content, "for: 2s")
		return strings.Replace(content, "max(fencepost_outbox_oldest_age_seconds) > 60", "max(fencepost_outbox_oldest_age_seconds) > 5", 1)
	})
	return w
}

func (w *world) submit(content string) procs.Task {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), deadline)
	defer cancel()
	w.keys++
	task, err := w.client.Submit(ctx, fmt.Sprintf("c-%d", w.keys), fmt.Sprintf("key-%d", w.keys), content)
	if err != nil {
		w.t.Fatal(err)
	}
	return task
}

func (w *world) status(id string) (status string) {
	w.t.Helper()
	if err := w.Pool.QueryRow(w.t.Context(), `select status from reply_tasks where id = $1`, id).Scan(&status); err != nil {
		w.t.Fatal(err)
	}
	return status
}

func (w *world) settled() {
	w.t.Helper()
	until(w.t, "all tasks have ended", func() bool {
		var n int
		if err := w.Pool.QueryRow(w.t.Context(), `select count(*) from reply_tasks where finished_at is null`).Scan(&n); err != nil {
			w.t.Fatal(err)
		}
		return n == 0
	})
}

// fires waits for an alert, and says which others fire beside it.
func (w *world) fires(alert string) {
	w.t.Helper()
	until(w.t, alert+" fires", func() bool { return w.prometheus.Firing()[alert].State != "" })
	w.t.Logf("%s fires; so do %q", alert, slices.Sorted(maps.Keys(w.prometheus.Firing())))
}

func (w *world) silent(alert string) {
	w.t.Helper()
	until(w.t, alert+" is silent again", func() bool { return w.prometheus.Firing()[alert].State == "" })
}

// TestExpressionsAndFaults runs an installation through what the dashboards show, and through the faults that the alerts
// name, one after the other.
func TestExpressionsAndFaults(t *testing.T) {
	w := newWorld(t)
	w.CLI("budgets", "set", "--workspace", "test", "--per-day", "1000", "--postgres-url", w.PostgresURL)

	for range 20 {
		w.submit("hello")
	}
	w.settled()
	until(t, "the work is scraped", func() bool {
		return len(w.prometheus.Series(`fencepost_consumer_committed_offset`)) > 0 && len(w.prometheus.Series(`fencepost_spend_today_usd`)) > 0
	})
	until(t, "nothing fires where nothing is wrong", func() bool { return len(w.prometheus.Firing()) == 0 })

	for _, part := range []struct {
		name string
		run  func(*testing.T)
	}{
		// The blocked head stays while the expressions are judged: there is a series of its age only then.
		{"head blocked", w.headBlocked}, {"expressions", w.expressions},
		{"breaker open", w.breakerOpen}, {"worker stopped", w.workerStopped}, {"outbox stuck", w.outboxStuck},
	} {
		ok := t.Run(part.name, func(t *testing.T) {
			w.t, w.prometheus.t = t, t
			part.run(t)
		})
		w.t, w.prometheus.t = t, t
		if !ok && part.name != "expressions" {
			return // the next fault would begin in this one
		}
	}
}

// expressions: Prometheus takes every expression, and each series and label in it is there.
func (w *world) expressions(t *testing.T) {
	list, err := Expressions()
	if err != nil || len(list) < 60 {
		t.Fatal(len(list), err)
	}
	until(t, "there are rates", func() bool { return len(w.prometheus.Series(`fencepost:llm_attempts_failed:ratio_rate5m`)) > 0 })
	labels := map[string]map[string]bool{} // by metric
	for _, e := range list {
		if err := w.prometheus.Parses(e.Text); err != nil {
			t.Errorf("%s: %v", e.Where, err)
			continue
		}
		for _, s := range e.Selectors() {
			found := w.prometheus.Series(s)
			if len(found) == 0 {
				t.Errorf("%s: there is no %s", e.Where, s)
			}
			for _, series := range found {
				name := series["__name__"]
				if labels[name] == nil {
					labels[name] = map[string]bool{}
				}
				for label := range series {
					labels[name][label] = true
				}
			}
		}
		by, metrics := e.Grouped()
		for _, label := range by {
			if !slices.ContainsFunc(metrics, func(m string) bool { return labels[m][label] }) {
				t.Errorf("%s: none of %q has the label %q", e.Where, metrics, label)
			}
		}
	}
	t.Logf("%d expressions over %d metrics", len(list), len(labels))
}

// headBlocked puts an old record of a task whose call does not end at the head of a partition, and ended ones behind it.
func (w *world) headBlocked(t *testing.T) {
	w.Model.Rules(`[{"match":{"contains":"hang"},"latency":"1h"}]`)
	slow, done := w.submit("hang"), w.submit("hello")
	until(t, "one runs and one has ended", func() bool { return w.status(slow.ID) == "running" && w.status(done.ID) == "completed" })
	var free int32 = -1
	until(t, "a partition without work", func() bool {
		for _, s := range w.prometheus.Series(`fencepost_consumer_lag_records`) {
			var n int32
			if _, err := fmt.Sscan(s["partition"], &n); err == nil && len(w.busy(s["partition"])) == 0 {
				free = n
				return true
			}
		}
		return false
	})
	producer, err := kgo.NewClient(kgo.SeedBrokers(w.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	var records []*kgo.Record
	for i := range 6 {
		id := done.ID
		if i == 0 {
			id = slow.ID
		}
		records = append(records, &kgo.Record{Topic: w.Topic, Partition: free, Key: fmt.Appendf(nil, "test/other-%d", i), Timestamp: time.Now().Add(-time.Hour),
			Value: fmt.Appendf(nil, `{"v":1,"task":%q,"workspace":"test"}`, id)})
	}
	if err := producer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.fires("FencepostPartitionBlocked")
	if p := w.prometheus.Firing()["FencepostPartitionBlocked"].Labels["partition"]; p != fmt.Sprint(free) {
		t.Errorf("partition %s is said to be blocked, want %d", p, free)
	}
}

// busy are the partitions that have lag now, of those named.
func (w *world) busy(partition string) []map[string]string {
	var out struct {
		Result []struct{ Metric map[string]string }
	}
	if err := w.prometheus.data("query", map[string][]string{"query": {`fencepost_consumer_lag_records{partition="` + partition + `"} > 0`}}, &out); err != nil {
		w.t.Fatal(err)
	}
	var list []map[string]string
	for _, r := range out.Result {
		list = append(list, r.Metric)
	}
	return list
}

// breakerOpen has the provider refuse the key.
func (w *world) breakerOpen(t *testing.T) {
	w.Model.Rules(`[{"do":"status","status":401,"body":"{\"error\":{\"message\":\"Incorrect API key\",\"code\":\"invalid_api_key\"}}"}]`)
	for range 5 {
		w.submit("hello")
	}
	w.fires("FencepostBreakerOpen")
	w.Model.Rules(`[]`)
	w.silent("FencepostBreakerOpen")
}

// workerStopped kills the only worker.
func (w *world) workerStopped(t *testing.T) {
	if err := w.worker.Kill(); err != nil {
		t.Fatal(err)
	}
	w.submit("hello")
	w.fires("FencepostWorkersStopped")
	w.fires("FencepostTargetDown")
	if err := w.worker.Start(); err != nil {
		t.Fatal(err)
	}
	w.silent("FencepostWorkersStopped")
	w.silent("FencepostTargetDown")
}

// outboxStuck has the broker stand still.
func (w *world) outboxStuck(t *testing.T) {
	w.Broker.Pause()
	defer w.Broker.Resume()
	w.submit("hello")
	w.fires("FencepostOutboxStuck")
	w.Broker.Resume()
	w.silent("FencepostOutboxStuck")
}
