package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// Bytes of content in one transaction: a batch of the largest messages would otherwise be a statement of 64 MiB.
const maxBatchBytes = 4 << 20

var (
	errQueueFull = errors.New("submission queue is full")
	errStopped   = errors.New("submissions have stopped")
	// errUnknown: the submission may have been stored. Only a repeat under its key tells.
	errUnknown = errors.New("the outcome of the submission is not known")
)

// batcher groups the submissions of concurrent requests into shared transactions, since one transaction each pays one
// disk flush each. It is adaptive: a submission that finds nothing in flight goes at once, others gather while it does.
//
// Two submissions of one conversation that are in hand at the same time have no order to keep; the second of two that
// were sent one after the other is enqueued after the first's commit.
type batcher struct {
	store       tasks.Store
	delay       time.Duration
	maxBatch    int
	committers  int
	timeout     time.Duration
	log         *slog.Logger
	onSubmitted func()
	metrics     *metrics

	queue    chan *pending
	batches  chan []*pending // unbuffered: a send succeeds when a committer is free
	idle     chan struct{}   // told when nothing is in flight any more
	inFlight atomic.Int32
	closing  atomic.Bool   // nothing more is queued
	stopped  chan struct{} // closed when run has returned: no outcome comes any more
}

// pending is a submission on its way.
type pending struct {
	submission tasks.Submission
	deadline   time.Time
	tried      bool         // handed to the store at least once: from then on a missing answer is errUnknown
	outcome    chan outcome // capacity 1, so that a committer never waits for a handler
}

type outcome struct {
	tasks.Submitted
	err error // of the call; Submitted says nothing then
}

func newBatcher(c Config, m *metrics) *batcher {
	return &batcher{
		store: c.Store, delay: c.GroupDelay, maxBatch: c.MaxBatch, committers: c.Committers,
		timeout: c.Limits.SubmitTimeout, log: c.Logger, onSubmitted: c.OnSubmitted, metrics: m,
		queue:   make(chan *pending, c.Limits.MaxQueue),
		batches: make(chan []*pending),
		idle:    make(chan struct{}, 1),
		stopped: make(chan struct{}),
	}
}

// submit returns what became of s. It does not take the request's context: a client that goes away must not cancel what
// others share, and whoever repeats the key wants the answer.
func (b *batcher) submit(s tasks.Submission) (tasks.Submitted, error) {
	p := &pending{submission: s, deadline: time.Now().Add(b.timeout), outcome: make(chan outcome, 1)}
	if b.closing.Load() {
		return tasks.Submitted{}, errStopped
	}
	select {
	case b.queue <- p:
	default:
		return tasks.Submitted{}, errQueueFull
	}
	// A committer gives up at the deadline by itself; this timer is for a store that ignores its context.
	timer := time.NewTimer(b.timeout + time.Second)
	defer timer.Stop()
	select {
	case o := <-p.outcome:
		return o.Submitted, o.err
	case <-timer.C:
		return tasks.Submitted{}, errUnknown
	case <-b.stopped:
		select {
		case o := <-p.outcome: // it was committed while run was ending
			return o.Submitted, o.err
		default: // it was queued after the last batch was taken
			return tasks.Submitted{}, errStopped
		}
	}
}

// run commits until ctx is done and what was queued by then is dealt with.
func (b *batcher) run(ctx context.Context) {
	defer close(b.stopped)
	var wg sync.WaitGroup
	for range b.committers {
		wg.Go(func() {
			for batch := range b.batches {
				b.commit(batch)
				if b.inFlight.Add(-1) == 0 {
					notify(b.idle)
				}
			}
		})
	}
	b.collect(ctx)
	close(b.batches)
	wg.Wait()
}

// collect forms the batches, one at a time.
func (b *batcher) collect(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var first *pending
		select {
		case first = <-b.queue:
		case <-ctx.Done():
			b.closing.Store(true)
			select {
			case first = <-b.queue:
			default:
				return
			}
		}
		batch, size := []*pending{first}, len(first.submission.Request.Content)
		room := func() bool { return len(batch) < b.maxBatch && size < maxBatchBytes }
		add := func(p *pending) {
			batch, size = append(batch, p), size+len(p.submission.Request.Content)
		}
		timer.Reset(b.delay)
		for ripe := false; !ripe && room(); {
			if b.inFlight.Load() == 0 {
				// Nothing pays for waiting. What is there already comes along.
				select {
				case p := <-b.queue:
					add(p)
				default:
					ripe = true
				}
				continue
			}
			select {
			case p := <-b.queue:
				add(p)
			case <-b.idle: // looked at again above: an old signal may have been left
			case <-timer.C:
				ripe = true
			}
		}
		// The batch is counted before it is handed over, so that the next one knows that it is not alone.
		b.inFlight.Add(1)
		for sent := false; !sent; {
			more := b.queue
			if !room() {
				more = nil
			}
			select {
			case b.batches <- batch:
				sent = true
			case p := <-more:
				add(p)
			}
		}
	}
}

// commit hands the batch to the store until every submission in it has an outcome or is past its deadline.
func (b *batcher) commit(batch []*pending) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		batch = b.expire(batch)
		if len(batch) == 0 {
			return
		}
		var err error
		if batch, err = b.try(batch); len(batch) == 0 {
			return
		}
		b.log.Debug("submissions are tried again", "submissions", len(batch), "wait", wait, "error", err)
		time.Sleep(wait)
	}
}

// expire answers what is past its deadline and returns the rest.
func (b *batcher) expire(batch []*pending) []*pending {
	now := time.Now()
	rest := batch[:0]
	for _, p := range batch {
		switch {
		case now.Before(p.deadline):
			rest = append(rest, p)
		case p.tried:
			p.outcome <- outcome{err: errUnknown}
		default:
			p.outcome <- outcome{err: errQueueFull}
		}
	}
	return rest
}

// try is one transaction. It answers what has an outcome and returns what is to be tried again, and why.
func (b *batcher) try(batch []*pending) ([]*pending, error) {
	items := make([]tasks.Submission, len(batch))
	var deadline time.Time
	for i, p := range batch {
		items[i] = p.submission
		p.tried = true
		if p.deadline.After(deadline) {
			deadline = p.deadline
		}
	}
	ctx, cancel := context.WithDeadlineCause(context.Background(), deadline, errUnknown)
	defer cancel()
	results, err := b.store.Submit(ctx, items)
	if err == nil && len(results) != len(batch) {
		err = fmt.Errorf("store answered %d of %d submissions", len(results), len(batch))
	}
	b.metrics.batch(len(batch))
	switch {
	case err == nil:
	case errors.Is(err, tasks.ErrUnavailable), ctx.Err() != nil:
		return batch, err
	default:
		for _, p := range batch {
			p.outcome <- outcome{err: err}
		}
		return nil, nil
	}
	var again []*pending
	stored := false
	for i, p := range batch {
		result := results[i]
		if errors.Is(result.Err, tasks.ErrUnavailable) {
			again, err = append(again, p), result.Err
			continue
		}
		// After a lost acknowledgement the repeat may find its own submission.
		stored = stored || result.Err == nil && (!result.Replayed || result.TaskID == p.submission.TaskID)
		p.outcome <- outcome{Submitted: result}
	}
	if stored {
		b.onSubmitted()
	}
	return again, err
}
