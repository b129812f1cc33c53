package replay

import (
	"context"
	"iter"
	"maps"

	"golang.org/x/time/rate"
)

// quietItems is after how many items without anything to re-arm the cursor is stored all the same.
const quietItems = 20_000

// Cursor is how far a replay has come.
type Cursor struct {
	Partitions map[int32]int64 `json:"partitions,omitempty"` // the next offset of each
	After      string          `json:"after,omitempty"`      // the last task of a list
}

func (c *Cursor) pass(i Item) {
	if i.Partition < 0 {
		c.After = i.Ref.Task.String()
		return
	}
	if c.Partitions == nil {
		c.Partitions = make(map[int32]int64)
	}
	c.Partitions[i.Partition] = i.Offset + 1
}

func (c *Cursor) clone() Cursor { return Cursor{Partitions: maps.Clone(c.Partitions), After: c.After} }

// Step is one transaction of a replay.
type Step struct {
	Refs    []Ref // distinct
	Skipped int64 // looked at since the step before, and left
	Cursor  Cursor
}

// Pace bounds a replay.
type Pace struct {
	PerSecond float64 // tasks re-armed; 0: no bound
	Max       int64   // tasks re-armed by this call; 0: no bound
}

// Progress is what this call has done so far.
type Progress struct {
	Records int64
	Rearmed int64
	Skipped int64
}

// Execute re-arms what items point at, beginning where cursor is: items must begin there, too. It returns what it has done
// and whether that was all of it. After an error, or when Max ends it, a call with the stored cursor goes on. told, which may be nil,
// hears of every step.
func Execute(ctx context.Context, store Tasks, items iter.Seq2[Item, error], cursor Cursor, pace Pace, told func(Progress)) (done Progress, all bool, err error) {
	e := &execution{store: store, cursor: cursor.clone(), pace: pace, told: told}
	size := lookBatch
	if pace.PerSecond > 0 {
		size = min(size, max(1, int(pace.PerSecond)))
		e.limit = rate.NewLimiter(rate.Limit(pace.PerSecond), size)
	}
	for item, err := range items {
		if err != nil {
			return e.done, false, err
		}
		if e.batch = append(e.batch, item); len(e.batch) < size {
			continue
		}
		if more, err := e.flush(ctx); err != nil || !more {
			return e.done, false, err
		}
	}
	more, err := e.flush(ctx)
	if err == nil && more && e.quiet > 0 {
		err = e.step(ctx, nil)
	}
	return e.done, more && err == nil, err
}

type execution struct {
	store   Tasks
	cursor  Cursor
	pace    Pace
	limit   *rate.Limiter
	told    func(Progress)
	batch   []Item
	skipped int64 // since the last step
	quiet   int   // items since the last step
	done    Progress
}

// flush judges the batch and does one step for it. more is false when Max has been reached and something is left.
func (e *execution) flush(ctx context.Context) (more bool, err error) {
	index := make(map[Ref]int, len(e.batch))
	var refs []Ref
	for _, item := range e.batch {
		if _, known := index[item.Ref]; item.Readable && !known {
			index[item.Ref] = len(refs)
			refs = append(refs, item.Ref)
		}
	}
	var states []State
	if len(refs) > 0 {
		if states, err = e.store.Look(ctx, refs); err != nil {
			return false, err
		}
	}
	var rearm []Ref
	taken := make([]bool, len(refs))
	more = true
	for _, item := range e.batch {
		if at, ok := index[item.Ref]; item.Readable && ok && !taken[at] {
			if states[at].Rearm && e.pace.Max > 0 && e.done.Rearmed+int64(len(rearm)) >= e.pace.Max {
				more = false
				break
			}
			if taken[at] = true; states[at].Rearm {
				rearm = append(rearm, item.Ref)
			} else {
				e.skipped++
			}
		}
		e.cursor.pass(item)
		e.done.Records++
		e.quiet++
	}
	e.batch = e.batch[:0]
	if len(rearm) == 0 && e.quiet < quietItems && more {
		return true, nil
	}
	if e.limit != nil && len(rearm) > 0 {
		if err := e.limit.WaitN(ctx, len(rearm)); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return false, err
		}
	}
	return more, e.step(ctx, rearm)
}

func (e *execution) step(ctx context.Context, rearm []Ref) error {
	n, err := e.store.Rearm(ctx, Step{Refs: rearm, Skipped: e.skipped, Cursor: e.cursor.clone()})
	if err != nil {
		return err
	}
	e.done.Rearmed += n
	e.done.Skipped += e.skipped + int64(len(rearm)) - n
	e.skipped, e.quiet = 0, 0
	if e.told != nil {
		e.told(e.done)
	}
	return nil
}
