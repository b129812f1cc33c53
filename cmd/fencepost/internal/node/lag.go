package node

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/offsets/lag"
	places "github.com/fencepost/fencepost/offsets/postgres"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// buildLag makes what the dispatcher role reads of the lag, for all workers, in the process that reads the outbox's first
// shard. It is elected there already, by leases on the database's clock, and needs no connection of its own for that, as
// an advisory lock would.
func (n *Node) buildLag() error {
	opts, err := n.config.Kafka.Options("lag", n.registry, n.config.Logger)
	if err != nil {
		return err
	}
	if n.lagClient, err = kgo.NewClient(append(opts, impatient()...)...); err != nil {
		return err
	}
	n.lag = lag.NewMonitor(lag.MonitorConfig{
		Config: lag.Config{
			Client: n.lagClient, Group: n.config.Kafka.Group, Topic: n.config.Kafka.Topic,
			Positions: LagPositions(places.New(n.store.Pool())), Tasks: LagTasks{Store: n.store},
		},
		Elected: n.dispatcher.Leads, Logger: n.config.Logger,
	})
	n.registry.MustRegister(n.lag.Collector(), newTaskCollector(n.store, n.dispatcher.Leads),
		newMoneyCollector(moneyCollector{store: n.store, elected: n.dispatcher.Leads}))
	return nil
}

// LagPositions reads positions that are kept with the replies.
func LagPositions(p *places.Positions) lag.Positions { return lagPositions{p} }

type lagPositions struct{ p *places.Positions }

// Stored implements lag.Positions.
func (l lagPositions) Stored(ctx context.Context, group string) ([]lag.Stored, error) {
	states, err := l.p.Read(ctx, group)
	out := make([]lag.Stored, len(states))
	for i, s := range states {
		out[i] = lag.Stored{Topic: s.Topic, TopicID: s.TopicID, Partition: s.Partition, Settled: s.Settled}
	}
	return out, err
}

// LagTasks looks up the tasks of head records.
type LagTasks struct{ Store tasks.Watched }

// TaskStates implements lag.Tasks.
func (l LagTasks) TaskStates(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]lag.TaskState, error) {
	list, err := l.Store.Progress(ctx, ids)
	out := make(map[uuid.UUID]lag.TaskState, len(list))
	for _, p := range list {
		out[p.TaskID] = lag.TaskState{Status: string(p.Status), Attempt: p.Attempts}
	}
	return out, err
}

// lagElsewhere is the answer of a process that does not read the lag.
type lagElsewhere struct {
	Error  string `json:"error"`
	Reader string `json:"reader,omitempty"` // the process that does: its host, process id and a random part
	Hint   string `json:"hint"`
}

// serveLag is /lag.json: the report of `fencepost lag -o json`, from the process that is elected to read it.
func (n *Node) serveLag(w http.ResponseWriter, r *http.Request) {
	answer := lagElsewhere{Error: "this process does not read the lag", Hint: "fencepost lag -o json"}
	if n.ready.running() && n.lag != nil {
		report, err := n.lag.Report(r.Context())
		if err == nil {
			writeJSON(w, http.StatusOK, report)
			return
		}
		if !errors.Is(err, lag.ErrNotElected) {
			answer.Error = err.Error()
			writeJSON(w, http.StatusBadGateway, answer)
			return
		}
	}
	if n.ready.running() {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		answer.Reader, _ = postgres.NewOutbox(n.store.Pool()).Leader(ctx) // without the name it is still an answer
	}
	writeJSON(w, http.StatusServiceUnavailable, answer)
}

// maxCounted bounds the counting of unfinished tasks: a scrape of a backlog must not read all of it.
const maxCounted = 50_000

// taskCollector counts unfinished tasks by status, where the lag is read. Those that are finished are
// fencepost_task_transitions_total.
type taskCollector struct {
	store interface {
		UnfinishedByStatus(ctx context.Context, most int) (map[tasks.Status]int, error)
	}
	elected func() bool
	tasks   *prometheus.Desc
}

func newTaskCollector(store *postgres.Store, elected func() bool) *taskCollector {
	return &taskCollector{store: store, elected: elected, tasks: prometheus.NewDesc("fencepost_tasks",
		"Tasks that are not finished, by status; counted up to 50,000 together. From one process of an installation.", []string{"status"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *taskCollector) Describe(to chan<- *prometheus.Desc) { to <- c.tasks }

// Collect implements prometheus.Collector. Without an answer there is no series: 0 would look like an empty queue.
func (c *taskCollector) Collect(to chan<- prometheus.Metric) {
	if !c.elected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	counts, err := c.store.UnfinishedByStatus(ctx, maxCounted)
	if err != nil {
		return
	}
	for _, s := range []tasks.Status{tasks.StatusQueued, tasks.StatusRunning} {
		to <- prometheus.MustNewConstMetric(c.tasks, prometheus.GaugeValue, float64(counts[s]), string(s))
	}
}
