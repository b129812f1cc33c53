package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fencepost/fencepost/offsets"
)

// tracker is one structure under test, with window records registered and none settled. replace settles the record in
// slot i, registers the next in its place and returns the position.
type tracker interface {
	replace(i int) (position int64)
}

var trackers = []struct {
	name string
	make func(window int) tracker
}{
	{"ours", newOurs},
	{"linked_list", newList},
	{"heap", newHeap},
}

type ours struct {
	t     *offsets.Tracker
	slots []offsets.Handle
	next  int64
}

func newOurs(window int) tracker {
	o := &ours{t: offsets.NewTracker(), slots: make([]offsets.Handle, window)}
	for i := range o.slots {
		o.slots[i] = o.t.Register(o.next, 0)
		o.next++
	}
	return o
}

func (o *ours) replace(i int) int64 {
	o.t.Done(o.slots[i])
	o.slots[i] = o.t.Register(o.next, 0)
	o.next++
	return o.t.Position().Offset
}

type list struct {
	l     linkedList
	slots []*listNode
	next  int64
}

func newList(window int) tracker {
	l := &list{slots: make([]*listNode, window)}
	for i := range l.slots {
		l.slots[i] = l.l.register(l.next)
		l.next++
	}
	return l
}

func (l *list) replace(i int) int64 {
	l.l.done(l.slots[i])
	l.slots[i] = l.l.register(l.next)
	l.next++
	return l.l.position
}

type heaped struct {
	h     offsetHeap
	slots []int64
	next  int64
}

func newHeap(window int) tracker {
	h := &heaped{h: offsetHeap{settled: map[int64]struct{}{}}, slots: make([]int64, window)}
	for i := range h.slots {
		h.slots[i] = h.next
		h.h.register(h.next)
		h.next++
	}
	return h
}

func (h *heaped) replace(i int) int64 {
	h.h.done(h.slots[i])
	h.slots[i] = h.next
	h.h.register(h.next)
	h.next++
	return h.h.position
}

// chooser draws the slot settled next: at random, so that stragglers hold the position back as long calls do. It draws
// anew each time: a list of draws gone through again and again leaves slots that are never settled. window is a power of 2.
func chooser(window int) func() int {
	r := rand.NewPCG(1, 2)
	return func() int { return int(r.Uint64() & uint64(window-1)) }
}

// The comparison is of structures that say the same.
func TestTrackersAgree(t *testing.T) {
	const window = 64
	var made []tracker
	for _, tr := range trackers {
		made = append(made, tr.make(window))
	}
	choose := chooser(window)
	for n := range 1 << 16 {
		i := choose()
		want := made[0].replace(i)
		for k, tr := range made[1:] {
			if got := tr.replace(i); got != want {
				t.Fatalf("record %d: %s is at %d, %s at %d", n, trackers[k+1].name, got, trackers[0].name, want)
			}
		}
	}
}

// BenchmarkTracker measures one record: settled, another registered, the position asked for.
func BenchmarkTracker(b *testing.B) {
	for _, tr := range trackers {
		for _, window := range []int{64, 1024, 16384} {
			b.Run(fmt.Sprintf("%s/window=%d", tr.name, window), func(b *testing.B) {
				t, choose := tr.make(window), chooser(window)
				for range 20 * window { // until the window has its usual shape, and rings and maps their size
					t.replace(choose())
				}
				b.ReportAllocs()
				for b.Loop() {
					t.replace(choose())
				}
			})
		}
	}
}
