package sim

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/e2e/history"
	"github.com/fencepost/fencepost/offsets"
	"github.com/fencepost/fencepost/offsets/kafka"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/outbox"
)

// process is a worker or a dispatcher that runs, stands still, stops or is dead.
type process struct {
	*proc
	stop     context.CancelCauseFunc
	done     chan struct{}
	stopping atomic.Bool  // asked to stop
	ended    atomic.Int64 // when it had ended, since the beginning; 0 before
}

func (w *world) start(p *proc, run func(ctx context.Context, self *process) error) *process {
	ctx, stop := context.WithCancelCause(context.Background())
	started := &process{proc: p, stop: stop, done: make(chan struct{})}
	w.all.Go(func() {
		defer close(started.done)
		defer func() { started.ended.Store(int64(w.rec.since())) }()
		if err := run(ctx, started); err != nil {
			w.rec.count("a process failed")
			w.logger(p.name).Error("run", "error", err)
		}
	})
	return started
}

var errKilled = errors.New("killed")

// murder ends a process without its having a say: first its ways out, then the goroutines that nobody hears any more.
func (w *world) murder(p *process) {
	if p.isDead() {
		return
	}
	w.rec.add(history.Event{Proc: p.name, Op: history.Killed, Type: history.OK})
	p.kill()
	p.stop(errKilled)
}

func (w *world) startWorker() *process {
	p := newProc(fmt.Sprintf("worker-%d", w.number()), w.seed, w.net)
	l := &link{database: w.data, p: p, slow: w.plan.slow}
	log := w.logger(p.name)
	cfg := consumer.Config{
		Kafka: p.kafka(w.cluster.ListenAddrs()), Topic: topic, Group: group, Worker: p.name,
		Order: w.plan.order, Protocol: w.plan.protocol, MaxInFlight: w.plan.inFlight,
		Lease: w.plan.lease, CallTimeout: w.plan.callTimeout, Retry: tasks.RetryPolicy{Base: 500 * time.Millisecond, Max: 10 * time.Second},
		CommitInterval: w.plan.commit, SessionTimeout: w.plan.session, DrainTimeout: w.plan.drain, RebalanceTimeout: rebalanceTimeout,
		Logger: log,
	}
	if w.plan.owners {
		cfg.Owners = owners{l}
	}
	places := &positions{Positions: kafka.New(kafka.Config{Group: group, Logger: log}), rec: w.rec, p: p}
	c, err := consumer.New(cfg, l, provider{w.model, p}, places)
	if err != nil {
		panic(err)
	}
	return w.start(p, func(ctx context.Context, _ *process) error { return c.Run(ctx) })
}

// positions notes the commits of one worker as it sees them.
type positions struct {
	consumer.Positions
	rec *recorder
	p   *proc
}

// Commit implements consumer.Positions.
func (p *positions) Commit(ctx context.Context, memberID string, commits []offsets.Commit) []error {
	first := p.rec.ids(len(commits))
	events := make([]history.Event, len(commits))
	for i, c := range commits {
		events[i] = history.Event{
			ID: first + int64(i), Proc: p.p.name, Op: history.Commit, Type: history.Invoke,
			Partition: c.Partition, Offset: c.Position.Offset,
		}
	}
	p.rec.add(events...)
	errs := p.Positions.Commit(ctx, memberID, commits)
	if p.p.isDead() {
		return errs
	}
	for i, err := range errs {
		switch events[i].Type = history.OK; {
		case errors.Is(err, offsets.ErrNotOwner), errors.Is(err, offsets.ErrRegress), errors.Is(err, offsets.ErrInvalid):
			events[i].Type, events[i].Note = history.Fail, err.Error()
			p.rec.count("commit refused")
		case err != nil:
			events[i].Type, events[i].Note = history.Info, err.Error()
			p.rec.count("ambiguous commit")
		}
	}
	p.rec.add(events...)
	return errs
}

func (w *world) startDispatcher() *process {
	p := newProc(fmt.Sprintf("dispatcher-%d", w.number()), w.seed, w.net)
	l := &link{database: w.data, p: p, slow: min(w.plan.slow, 20*time.Millisecond)}
	box := &boxLink{l: l, inner: w.data.Store.Outbox()}
	d, err := outbox.New(outbox.Config{
		Store: box, Kafka: p.kafka(w.cluster.ListenAddrs()), Topic: topic, Owner: p.name, Group: group,
		Lease: 5 * time.Second, RecoverEvery: 5 * time.Second, RecoverMargin: 10 * time.Second, Logger: w.logger(p.name),
	})
	if err != nil {
		panic(err)
	}
	return w.start(p, func(ctx context.Context, self *process) error {
		box.onDelete = func() {
			// Between the broker's acknowledgement and the delete: the worst moment to die.
			if w.faulty() && p.chance(40) {
				w.rec.count("dispatcher killed before its delete")
				w.murder(self)
			}
		}
		return d.Run(ctx)
	})
}
