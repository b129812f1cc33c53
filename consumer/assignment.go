package consumer

import (
	"cmp"
	"slices"
	"time"

	"github.com/fencepost/fencepost/offsets"
)

// assignment is one ownership of one partition, from assigned to revoked or lost. Every record in work points at its
// assignment: state is never looked up by partition when an answer comes back, so an answer of a former ownership
// cannot touch the present one. Guarded by Consumer.mu.
type assignment struct {
	topic     string
	partition int32
	member    string // the member id under which it was acquired
	session   *session
	owner     offsets.Owner // Epoch 0: positions are kept in the group's commits alone

	tracker *offsets.Tracker
	first   int64         // where reading begins, -1 unknown
	why     string        // why it is not the committed position: a begin event
	ahead   []offsets.Run // settled beyond first by whoever had the partition before
	behind  int64         // end of the last record received: the next one's span reaches back to it

	lanes map[uint64]*lane
	ready fair // may be claimed now
	bytes int  // of items that are not ended

	started  int           // items that are itemStarted
	draining bool          // nothing new starts
	dead     bool          // gone: nothing that ends may move the tracker
	idle     chan struct{} // closed when draining and nothing is started; made by drain
	queued   bool          // in the dispatch ring
	stalled  bool          // waits for a slot of one of its workspaces

	paused    bool
	committed offsets.Position // what the group has, as far as we know
	meta      string           // the settled-ahead runs committed with it
	said      time.Time        // when it was last committed, or assigned
	logEnd    int64            // high watermark of the last fetch, -1 before
	received  []receipt        // of unsettled records and of those that follow the first one, by offset

}

// receipt remembers when a record was produced, for the age of the head record.
type receipt struct {
	offset    int64
	timestamp int64 // Unix milliseconds
}

// begin notes where reading begins, before the first record.
func (a *assignment) begin(at, committed int64, ahead []offsets.Run, owner offsets.Owner, event string) {
	a.first, a.behind, a.ahead, a.owner, a.why = at, at, ahead, owner, event
	a.tracker.Resume(ahead) // or the next commit would forget those that are not read again yet
	if committed > at {
		committed = -1 // a position of a log that is gone must not hold back the new one's
	}
	a.committed.Offset = committed
}

// enqueue puts a registered record where it waits for its turn.
func (a *assignment) enqueue(it *item, key uint64, ordered bool) {
	if !ordered {
		a.ready.push(it)
		return
	}
	l := a.lanes[key]
	if l == nil {
		l = &lane{key: key}
		a.lanes[key] = l
	}
	it.lane = l
	if l.busy {
		l.wait.push(it)
		return
	}
	l.busy = true
	a.ready.push(it)
}

// end marks it settled: the tracker may move, and the next of its lane is ready.
func (a *assignment) end(it *item) {
	if it.state == itemEnded {
		return
	}
	if it.state == itemStarted {
		a.stopped()
	}
	it.state = itemEnded
	if a.dead {
		return
	}
	a.tracker.Done(it.handle)
	a.bytes -= it.size()
	if it.lane == nil {
		return
	}
	if next := it.lane.wait.pop(); next != nil {
		a.ready.push(next)
		return
	}
	delete(a.lanes, it.lane.key)
}

// start and stopped count what a drain waits for.
func (a *assignment) start(it *item) {
	it.state = itemStarted
	a.started++
}

func (a *assignment) stopped() {
	a.started--
	if a.started == 0 && a.idle != nil {
		close(a.idle) // once: nothing starts after drain
	}
}

// drain stops starts and returns a channel that is closed when nothing is started any more. A revoke during a stop
// drains the same assignment a second time.
func (a *assignment) drain() <-chan struct{} {
	a.draining = true
	if a.idle == nil {
		a.idle = make(chan struct{})
		if a.started == 0 {
			close(a.idle)
		}
	}
	return a.idle
}

// head returns the record that holds the position back, and forgets what lies behind it.
func (a *assignment) head() (receipt, bool) {
	offset, ok := a.tracker.Head()
	if !ok {
		a.received = a.received[:0]
		return receipt{}, false
	}
	i, found := slices.BinarySearchFunc(a.received, offset, func(r receipt, offset int64) int { return cmp.Compare(r.offset, offset) })
	a.received = a.received[:copy(a.received, a.received[i:])]
	if !found {
		return receipt{}, false
	}
	return a.received[0], true
}

// commit is what there is to commit, and whether it is news to the group.
func (a *assignment) commit(again time.Duration) (offsets.Commit, bool) {
	c := offsets.Commit{Topic: a.topic, Partition: a.partition, Position: a.tracker.Position()}
	if c.Position.Offset < 0 && (a.committed.Offset >= 0 || a.why == "") {
		// Nothing received yet. What is stored with the replies may be ahead of the group's commit, or the group may have
		// none, and nothing may ever be received: the lag that others see would stay.
		c.Position.Offset = a.first
	}
	if a.dead || c.Position.Offset < 0 {
		return c, false
	}
	a.head() // keeps the receipts as short as the window
	c.Ahead = a.tracker.Ahead(nil)
	return c, c.Position.Offset > a.committed.Offset || time.Since(a.said) > again || offsets.EncodeRuns(c.Position.Offset, c.Ahead, aheadLimit) != a.meta
}

// aheadLimit is the length in which two encodings are compared; the committer applies the broker's own limit.
const aheadLimit = 4096
