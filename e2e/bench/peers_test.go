package bench

import "container/heap"

// linkedList is the structure of stream processors' checkpointers, written anew here: a settled record is folded into
// the unsettled one before it, so that memory follows the records in work and not the window.
type linkedList struct {
	first, last *listNode
	position    int64
}

type listNode struct {
	before, after *listNode
	covers        int64 // the last offset that is settled once this record is
}

func (l *linkedList) register(offset int64) *listNode {
	n := &listNode{before: l.last, covers: offset}
	if l.last == nil {
		l.first = n
	} else {
		l.last.after = n
	}
	l.last = n
	return n
}

func (l *linkedList) done(n *listNode) {
	if n.before == nil {
		l.position = n.covers + 1
		l.first = n.after
	} else {
		n.before.covers = n.covers
		n.before.after = n.after
	}
	if n.after == nil {
		l.last = n.before
	} else {
		n.after.before = n.before
	}
}

// offsetHeap is what is usually written first: a heap of registered offsets and a set of the settled ones, popped from
// the top while it is settled.
type offsetHeap struct {
	offsets  []int64
	settled  map[int64]struct{}
	position int64
}

func (h *offsetHeap) Len() int           { return len(h.offsets) }
func (h *offsetHeap) Less(i, j int) bool { return h.offsets[i] < h.offsets[j] }
func (h *offsetHeap) Swap(i, j int)      { h.offsets[i], h.offsets[j] = h.offsets[j], h.offsets[i] }
func (h *offsetHeap) Push(x any)         { h.offsets = append(h.offsets, x.(int64)) }
func (h *offsetHeap) Pop() any {
	x := h.offsets[len(h.offsets)-1]
	h.offsets = h.offsets[:len(h.offsets)-1]
	return x
}

func (h *offsetHeap) register(offset int64) { heap.Push(h, offset) }

func (h *offsetHeap) done(offset int64) {
	h.settled[offset] = struct{}{}
	for len(h.offsets) > 0 {
		top := h.offsets[0]
		if _, ok := h.settled[top]; !ok {
			return
		}
		delete(h.settled, top)
		heap.Pop(h)
		h.position = top + 1
	}
}
