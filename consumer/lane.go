package consumer

import "slices"

// lane is the queue of records that wait for one another. A lane that has an unsettled record started, ready or parked
// is busy.
type lane struct {
	key  uint64
	busy bool
	wait fifo
}

// fifo is a queue of items that keeps its array.
type fifo struct {
	items []*item
	head  int
}

func (q *fifo) push(it *item) { q.items = append(q.items, it) }

func (q *fifo) len() int { return len(q.items) - q.head }

func (q *fifo) pop() *item {
	if q.head == len(q.items) {
		return nil
	}
	it := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 1024 && q.head > len(q.items)/2 {
		// Without it a queue that never runs empty would grow for ever.
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return it
}

// fair is a queue with a turn for each workspace, so that one that floods cannot keep the others from the slots.
type fair struct {
	queues map[string]*fifo
	turns  []string // workspaces with something queued
	n      int
}

func (f *fair) len() int { return f.n }

func (f *fair) push(it *item) {
	q := f.queues[it.ref.Workspace]
	if q == nil {
		if f.queues == nil {
			f.queues = map[string]*fifo{}
		}
		q = &fifo{}
		f.queues[it.ref.Workspace] = q
	}
	if q.len() == 0 {
		f.turns = append(f.turns, it.ref.Workspace)
	}
	q.push(it)
	f.n++
}

// each calls do for all that is queued, in no particular order.
func (f *fair) each(do func(*item)) {
	for _, q := range f.queues {
		for _, it := range q.items[q.head:] {
			do(it)
		}
	}
}

// pop takes the next item of the first workspace in turn that is not full; nil when there is none.
func (f *fair) pop(full func(workspace string) bool) *item {
	for i, workspace := range f.turns {
		if full(workspace) {
			continue
		}
		if i == 0 {
			f.turns = f.turns[1:]
		} else {
			f.turns = slices.Delete(f.turns, i, i+1)
		}
		q := f.queues[workspace]
		it := q.pop()
		if q.len() > 0 {
			f.turns = append(f.turns, workspace)
		} else {
			delete(f.queues, workspace)
		}
		f.n--
		return it
	}
	return nil
}
