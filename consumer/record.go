package consumer

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/offsets"
	"github.com/fencepost/fencepost/tasks"
)

// maxRecordValue bounds what is read of a record: a pointer needs about 150 bytes.
const maxRecordValue = 4 << 10

// errUnreadable marks a record that does not point at a task, whatever is tried.
var errUnreadable = errors.New("unreadable record")

// decodeRecord reads the pointer that a record carries. Fields it does not know are left to later versions of the
// record; an unknown version is not.
func decodeRecord(value []byte) (tasks.Ref, error) {
	if len(value) > maxRecordValue {
		return tasks.Ref{}, fmt.Errorf("%w: %d bytes are more than a pointer can have", errUnreadable, len(value))
	}
	var v struct {
		V         int       `json:"v"`
		Task      uuid.UUID `json:"task"`
		Workspace string    `json:"workspace"`
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return tasks.Ref{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	switch {
	case v.V != 1:
		return tasks.Ref{}, fmt.Errorf("%w: version %d", errUnreadable, v.V)
	case v.Task == uuid.Nil || v.Workspace == "":
		return tasks.Ref{}, fmt.Errorf("%w: no task or no workspace", errUnreadable)
	}
	return tasks.Ref{TaskID: v.Task, Workspace: v.Workspace}, nil
}

// item is one received record until it is settled. It is guarded by Consumer.mu, but for the fields set at creation.
type item struct {
	asg    *assignment
	handle offsets.Handle
	offset int64
	from   int64 // the record accounts for [from, offset+1): gaps before it are settled with it
	lane   *lane // nil: waits for nobody
	ref    tasks.Ref
	trace  string
	before string // traceparent of the attempt before, which this worker made; empty: none, or tracing is off

	// The original, for a dead letter: copied, since a record of the client pins the whole fetched batch.
	key, value []byte
	timestamp  int64 // of the record, Unix milliseconds

	state  itemState
	due    int64 // parked: when, on the consumer's monotonic clock in nanoseconds
	parked int   // index in the parking heap, -1 when not in it
	leased bool  // parked because someone else's lease runs: it may also end before

	occupies bool  // it has one of its workspace's slots
	admitted bool  // the gate has let it through
	judged   int64 // when it was last judged while the gate kept it back, on the same clock
}

type itemState uint8

const (
	itemQueued  itemState = iota // in its lane or ready
	itemStarted                  // being claimed, called, settled or dead-lettered
	itemParked
	itemEnded // settled, or dropped with its assignment
)

// size is what the item counts for in the byte bound: an estimate of what it keeps on the heap.
func (it *item) size() int { return 256 + len(it.key) + len(it.value) }

func newItem(a *assignment, rec *kgo.Record) *item {
	buf := make([]byte, 0, len(rec.Key)+len(rec.Value))
	buf = append(append(buf, rec.Key...), rec.Value...)
	it := &item{asg: a, offset: rec.Offset, parked: -1, timestamp: rec.Timestamp.UnixMilli()}
	it.key, it.value = buf[:len(rec.Key):len(rec.Key)], buf[len(rec.Key):]
	if rec.Key == nil {
		it.key = nil
	}
	if rec.Value == nil {
		it.value = nil
	}
	for i := range rec.Headers {
		if rec.Headers[i].Key == "traceparent" && len(rec.Headers[i].Value) <= 64 {
			it.trace = string(rec.Headers[i].Value)
		}
	}
	return it
}

var laneSeed = maphash.MakeSeed()

// laneKey is where the record queues. Two keys with one hash share a lane, which costs them time and nothing else.
func laneKey(order Order, rec *kgo.Record) (uint64, bool) {
	switch {
	case order == OrderPartition:
		return 0, true
	case order == OrderConversation && rec.Key != nil:
		return maphash.Bytes(laneSeed, rec.Key), true
	}
	return 0, false
}
