package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/offsets"
	"github.com/fencepost/fencepost/tasks"
)

// Positions is where committed positions are kept. One value serves one Consumer, over all its sessions.
type Positions interface {
	// Opts go into the client of each session.
	Opts() []kgo.Opt
	// Bind names the client of the session that begins.
	Bind(*kgo.Client)
	// Resume returns what was found for a newly assigned partition: the committed offset, -1 with none, and what is
	// settled beyond it. It is called once an assignment, before its first record is registered.
	Resume(topic string, partition int32) (committed int64, ahead []offsets.Run)
	// Commit stores positions acquired under memberID, with one error or nil an item; offsets.ErrNotOwner when the
	// membership is over.
	Commit(ctx context.Context, memberID string, commits []offsets.Commit) []error
}

// Consumer turns records into settled tasks. Create it with New, run it once with Run.
type Consumer struct {
	cfg       Config
	store     tasks.Store
	provider  llm.Provider
	recoverer llm.Recoverer // the provider, where a way to recover was declared
	positions Positions
	log       *slog.Logger
	metrics   *metrics
	epoch     time.Time // zero of the monotonic clock that now() reads
	producer  *kgo.Client
	leases    leases
	unpriced  unpriced

	soft    context.Context // done: stop starting, drain
	callCtx context.Context // done: running calls are cancelled
	hard    context.Context // done: nothing is waited for any more
	calls   sync.WaitGroup  // provider calls and dead letters

	mu      sync.Mutex // see schedule.go
	work    *sync.Cond // on mu: ready records or free slots
	session *session   // nil between sessions
	ring    []*assignment
	slots   int
	// Slots taken by each workspace, and partitions that wait for one of theirs; only where workspaces are bounded.
	occupied map[string]int
	stalled  []*assignment
	parking  parkingHeap

	pauseMu     sync.Mutex
	parkingWake chan struct{}
	commitWake  chan struct{}
	finished    atomic.Int64 // records settled since the last commit
	stopping    atomic.Bool
	stopSince   atomic.Int64

	notes chan noting

	endedMu  sync.Mutex
	liveOver []tasks.Assignment // whose texts are to be dropped

	settleMu    sync.Mutex
	settleWork  *sync.Cond
	fresh, held settleQueue
}

// New checks the configuration and registers the metrics. It connects nowhere.
func New(cfg Config, store tasks.Store, provider llm.Provider, positions Positions) (*Consumer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Consumer{
		cfg: cfg, store: store, provider: provider, positions: positions,
		log: cfg.Logger.With("component", "consumer"), metrics: newMetrics(cfg.Registerer), epoch: time.Now(),
		occupied: map[string]int{},
		leases:   leases{jobs: map[*job]struct{}{}},
		notes:    make(chan noting, maxBatch),
		slots:    cfg.MaxInFlight, parkingWake: make(chan struct{}, 1), commitWake: make(chan struct{}, 1),
	}
	if r, ok := provider.(llm.Recoverer); ok && r.Recovers() {
		c.recoverer = r
	}
	c.work = sync.NewCond(&c.mu)
	c.settleWork = sync.NewCond(&c.settleMu)
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(newPartitionCollector(c))
	}
	return c, nil
}

// now is the time since the consumer was made, on the monotonic clock: a step of the wall clock moves no lease.
func (c *Consumer) now() int64 { return int64(time.Since(c.epoch)) }

// Run consumes until ctx is done, then drains: it starts nothing new, waits for started work up to the drain timeout,
// commits and leaves the group. Calls that outlast the drain go on under their leases until the stop timeout; then they
// are cancelled and their tasks handed on at once. It returns nil after a drain. Every goroutine it started has ended when it returns, but
// for calls that are deaf to their context: a stop does not wait for those for ever.
func (c *Consumer) Run(ctx context.Context) error {
	var stopCalls, stopHard context.CancelCauseFunc
	base := context.WithoutCancel(ctx)
	c.soft = ctx
	c.callCtx, stopCalls = context.WithCancelCause(base)
	c.hard, stopHard = context.WithCancelCause(base)
	defer stopHard(nil)
	defer stopCalls(nil)
	defer context.AfterFunc(ctx, func() {
		c.stopSince.Store(c.now())
		c.stopping.Store(true)
	})()

	producer, err := kgo.NewClient(append(append([]kgo.Opt{}, c.cfg.Kafka...),
		// An idempotent record in flight outlives its context, and a stop would wait for a broker that stands still. A dead
		// letter may be there twice.
		kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(250*time.Millisecond))...)
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	c.producer = producer
	defer producer.Close()

	var claims, settles, heldSettles, background sync.WaitGroup
	workCtx, stopWork := context.WithCancelCause(base)
	for range claimers {
		claims.Go(func() { c.runClaims(workCtx) })
	}
	for range settlers {
		settles.Go(func() { c.runSettles(&c.fresh) })
	}
	heldSettles.Go(func() { c.runSettles(&c.held) })
	backCtx, stopBackground := context.WithCancelCause(base)
	background.Go(func() { c.runRenewals(backCtx) })
	background.Go(func() { c.runParking(backCtx) })
	background.Go(func() { c.runRecheck(backCtx) })
	background.Go(func() { c.runNotes(backCtx) })
	if c.cfg.Live != nil {
		background.Go(func() { c.runLive(backCtx) })
	}

	err = c.runSessions(ctx)
	c.stopSince.CompareAndSwap(0, c.now()) // also when it ends by itself

	// The sessions have drained and left the group. Calls go on under their leases until the stop timeout; what still runs
	// then is cancelled, and settled as work for whoever comes next.
	stopWork(errStopped)
	c.mu.Lock()
	c.work.Broadcast()
	c.mu.Unlock()
	claims.Wait()
	c.awaitCalls(c.cfg.StopTimeout - time.Duration(c.now()-c.stopSince.Load()))
	stopCalls(errStopped)
	timer := time.AfterFunc(settleGrace, func() { stopHard(errStopped) })
	if !c.awaitCalls(settleGrace) {
		c.log.Error("calls do not end although they were told to; stopping without them, their tasks go on when the leases end")
	}
	c.closeSettles(&c.fresh)
	settles.Wait()
	c.closeSettles(&c.held)
	heldSettles.Wait()
	timer.Stop()
	stopBackground(nil)
	background.Wait()
	return err
}

// awaitCalls waits for the calls, at most for d, and reports whether they have ended.
func (c *Consumer) awaitCalls(d time.Duration) bool {
	done := make(chan struct{})
	go func() { // ends with the calls
		c.calls.Wait()
		close(done)
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// settleGrace is how long a stop waits for the store to take the last settles.
const settleGrace = 10 * time.Second

// runSessions runs one session after the other until ctx is done.
func (c *Consumer) runSessions(ctx context.Context) error {
	pause := backoff{base: 200 * time.Millisecond, max: 10 * time.Second}
	for ctx.Err() == nil {
		s, err := c.newSession(ctx)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.session = s
		c.mu.Unlock()
		began := time.Now()
		if err := s.run(); err != nil && ctx.Err() == nil {
			if errors.Is(err, errInstanceTaken) {
				return err // taking it back would only make the other one do the same
			}
			c.log.Error("group session ended, beginning a new one", "error", err)
			if time.Since(began) > time.Minute {
				pause.reset()
			}
			sleep(ctx, pause.next())
		}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		c.log.Info("stopped", "cause", cause)
	}
	return nil
}
