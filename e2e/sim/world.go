package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/e2e/history"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

const (
	topic      = "reply-tasks"
	deadLetter = topic + ".dlq"
	group      = "fencepost"
)

// world is one run.
type world struct {
	seed uint64
	plan plan
	rec  *recorder
	log  io.Writer

	net     *kfake.VirtualNetwork
	cluster *kfake.Cluster
	data    *database
	model   *model

	mu          sync.Mutex // guards what follows
	rand        *rand.Rand
	started     int // processes
	workers     []*process
	dispatchers []*process
	api         *server
	all         sync.WaitGroup // every goroutine that the world starts
	laters      sync.WaitGroup // what faults have still in store
}

// plan is what the seed decides of the whole run.
type plan struct {
	partitions  int32
	workers     int
	dispatchers int
	messages    int
	arrivals    time.Duration // all of them come within it
	faults      int
	faultTime   time.Duration
	conversations,
	inFlight int
	order    consumer.Order
	protocol consumer.Protocol
	owners   bool // positions kept with the replies
	lease, session, drain, commit,
	callTimeout time.Duration
	slow time.Duration // of the way to the store and back, each
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func draw(r *rand.Rand) plan {
	p := plan{
		partitions: int32(1 + r.IntN(4)), workers: 1 + r.IntN(3), dispatchers: 1 + r.IntN(2),
		messages: 15 + r.IntN(40), arrivals: 20*time.Second + time.Duration(r.Int64N(int64(40*time.Second))),
		faults: 3 + r.IntN(12), faultTime: 80 * time.Second,
		conversations: pick(r, 2, 6, 20), inFlight: pick(r, 2, 8, 64),
		order:    pick(r, consumer.OrderConversation, consumer.OrderConversation, consumer.OrderPartition, consumer.OrderNone),
		protocol: pick(r, consumer.ProtocolClassic, consumer.ProtocolClassic, consumer.ProtocolConsumer),
		owners:   r.IntN(2) == 0,
		lease:    pick(r, 4*time.Second, 8*time.Second, 20*time.Second), session: pick(r, 6*time.Second, 15*time.Second),
		drain: pick(r, time.Second, 5*time.Second, 25*time.Second), commit: pick(r, 100*time.Millisecond, time.Second),
		callTimeout: 40 * time.Second, slow: pick(r, 2*time.Millisecond, 20*time.Millisecond, 300*time.Millisecond),
	}
	return p
}

// Result is what came of a run.
type Result struct {
	Seed       uint64
	Plan       string
	Events     []history.Event
	Counts     map[string]int
	Problems   []string // what the world itself found: something did not end
	Violations []history.Violation
	Virtual    time.Duration
}

// run is one seed, inside a bubble. The violations are found afterwards, outside of it.
func run(seed uint64, log io.Writer) Result {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	w := &world{seed: seed, plan: draw(r), rand: r, rec: newRecorder(), log: log, net: &kfake.VirtualNetwork{}}
	// The store's clock is an hour off: whoever uses his own where it is the store's that counts, is found out.
	w.data = &database{
		Store: memory.New(memory.Config{Now: func() time.Time { return time.Now().Add(time.Hour) }}),
		rec:   w.rec, content: map[string]uuid.UUID{},
	}
	w.model = newModel(seed, w.data)
	res := Result{Seed: seed, Plan: fmt.Sprintf("%+v", w.plan)}
	if err := w.startCluster(); err != nil {
		res.Problems = append(res.Problems, "cluster: "+err.Error())
		return res
	}
	watch, unwatch := context.WithCancel(context.Background())
	w.observe(watch)
	w.expireGhosts(watch)
	w.api = w.startAPI()
	for range w.plan.dispatchers {
		w.dispatchers = append(w.dispatchers, w.startDispatcher())
	}
	for range w.plan.workers {
		w.workers = append(w.workers, w.startWorker())
	}
	var clients sync.WaitGroup
	w.startClients(&clients)
	w.inject()
	clients.Wait()
	w.heal()

	res.Problems = w.awaitEnd()
	w.shutdown()
	if len(res.Problems) == 0 {
		w.rec.add(history.Event{Op: history.Quiet, Type: history.OK})
	}
	w.data.flights.Wait()
	w.takeStock()
	unwatch()
	w.waitForAll()
	w.cluster.Close()
	res.Events, res.Counts = w.rec.result()
	res.Virtual = w.rec.since()
	return res
}

func (w *world) logger(name string) *slog.Logger {
	if w.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.String("t", w.rec.since().String())
		}
		return a
	}})).With("proc", name)
}

// number is that of a new process.
func (w *world) number() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started++
	return w.started
}

// quietTime is by when everything must have ended after the faults: the longest wait that the provider asks for, and
// what may follow it.
const quietTime = 20 * time.Minute

// awaitEnd returns what has not ended within the quiet time.
func (w *world) awaitEnd() []string {
	var open []string
	var rebalancing time.Duration // for how long
	for deadline := time.Now().Add(quietTime); time.Now().Before(deadline); time.Sleep(time.Second) {
		if open = w.open(); len(open) == 0 {
			return nil
		}
		if info := w.cluster.GroupInfo(group); info == nil || info.State != "PreparingRebalance" {
			rebalancing = 0
		} else if rebalancing += time.Second; rebalancing > 3*rebalanceTimeout {
			w.unwedge()
			rebalancing = 0
		}
	}
	return open
}

// open is what has not ended.
func (w *world) open() []string {
	var out []string
	unfinished := 0
	for _, t := range w.tasks() {
		if !t.Status.Terminal() {
			unfinished++
			if unfinished <= 3 {
				out = append(out, fmt.Sprintf("task %s is %s: version %d, attempts %d of %d, by %s", t.ID, t.Status, t.Version, t.Attempts, t.MaxAttempts, t.Worker))
			}
		}
	}
	if n, age, err := w.data.Store.Outbox().Pending(context.Background()); n > 0 || err != nil {
		out = append(out, fmt.Sprintf("%d handoffs, the oldest %s old: %v", n, age, err))
	}
	info := w.cluster.GroupInfo(group)
	for _, p := range w.cluster.PartitionInfos(topic) {
		committed := int64(-1)
		if info != nil {
			if c, ok := info.Commits[topic][p.Partition]; ok {
				committed = c.Offset
			}
		}
		if p.HighWatermark > p.LogStartOffset && committed != p.HighWatermark {
			out = append(out, fmt.Sprintf("partition %d: committed %d, end %d", p.Partition, committed, p.HighWatermark))
		}
	}
	if len(out) > 0 && info != nil {
		out = append(out, fmt.Sprintf("(the group is %s)", info.State))
		for _, m := range info.Members {
			out = append(out, fmt.Sprintf("(member %s has %v)", m.MemberID, m.Assignment[topic]))
		}
	}
	return out
}

func (w *world) tasks() []tasks.Task {
	var all []tasks.Task
	before := uuid.Nil
	for {
		page, err := w.data.Store.Tasks(context.Background(), tasks.Filter{Before: before, Limit: 1000})
		if err != nil {
			panic(err) // the model store does not fail by itself
		}
		all = append(all, page...)
		if len(page) < 1000 {
			slices.Reverse(all)
			return all
		}
		before = page[len(page)-1].ID
	}
}

var errOver = errors.New("the run is over")

// shutdown stops what still runs, as an operator does, and waits for all of it, the dead too.
func (w *world) shutdown() {
	w.mu.Lock()
	processes := slices.Concat(w.workers, w.dispatchers)
	api := w.api
	w.mu.Unlock()
	for _, p := range processes {
		p.stop(errOver)
	}
	for _, p := range processes {
		select {
		case <-p.done:
		case <-time.After(quietTime):
			panic(fmt.Sprintf("seed %d: %s does not stop", w.seed, p.name))
		}
	}
	api.close()
}

// waitForAll waits for every goroutine. One that does not end keeps virtual time going for ever, and the test with it.
func (w *world) waitForAll() {
	over := make(chan struct{})
	go func() {
		w.all.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(quietTime):
		panic(fmt.Sprintf("seed %d: not every goroutine ends", w.seed))
	}
}

// takeStock notes how everything stands at the end.
func (w *world) takeStock() {
	for _, t := range w.tasks() {
		e := history.Event{Op: history.Final, Type: history.OK, Task: t.ID.String(), Workspace: t.Workspace, Attempt: t.Attempts}
		describe(&e, t)
		w.rec.add(e)
		if t.Failure != nil && t.Status == tasks.StatusFailed {
			w.rec.count("failed: " + t.Failure.Class)
		}
		if t.Status == tasks.StatusFailed && t.AttemptsSpent() {
			w.rec.count("budget spent")
		}
		rows, err := w.data.Store.Attempts(context.Background(), t.Workspace, t.ID)
		if err != nil {
			panic(err)
		}
		for _, a := range rows {
			e := history.Event{Op: history.Attempt, Type: history.OK, Task: t.ID.String(), Version: a.Version, Attempt: a.Number, Outcome: string(a.Outcome)}
			if a.InputTokens != nil && a.OutputTokens != nil {
				e.Tokens = &history.Tokens{In: *a.InputTokens, Out: *a.OutputTokens}
			}
			w.rec.add(e)
		}
	}
}

// describeProblems is what is printed of a failed run.
func (r *Result) describeProblems() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d (%s of virtual time), plan %s\n", r.Seed, r.Virtual, r.Plan)
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "  not ended: %s\n", p)
	}
	for i, v := range r.Violations {
		if i == 10 {
			fmt.Fprintf(&b, "  and %d more\n", len(r.Violations)-i)
			break
		}
		fmt.Fprintf(&b, "  %s\n", v)
	}
	return b.String()
}
