package memory

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Snapshot implements outbox.Store. A task and its handoff appear at once here, so that the time says what was there.
func (o *Outbox) Snapshot(ctx context.Context, bound int) (snapshot tasks.Snapshot, complete bool, err error) {
	handed := make(map[uuid.UUID]struct{})
	err = o.s.transact(ctx, "Snapshot", func(now time.Time) {
		snapshot.At = now
		for _, rows := range o.s.outbox {
			for _, h := range rows {
				handed[h.TaskID] = struct{}{}
			}
		}
		for id, due := range o.s.delayed {
			if !due.After(now) {
				handed[id] = struct{}{}
			}
		}
	})
	if err != nil || len(handed) > bound {
		return tasks.Snapshot{}, false, err
	}
	snapshot.HandedOff = handed
	return snapshot, true, nil
}

// Recover implements outbox.Store.
func (o *Outbox) Recover(ctx context.Context, snapshot tasks.Snapshot, due time.Duration, after uuid.UUID, limit int) (recovered []uuid.UUID, next uuid.UUID, err error) {
	err = o.s.transact(ctx, "Recover", func(now time.Time) {
		from, found := slices.BinarySearchFunc(o.s.ids, after, compare)
		if found {
			from++
		}
		looked := 0
		for _, id := range o.s.ids[from:] {
			r := o.s.tasks[id]
			if r.Status.Terminal() {
				continue
			}
			if looked++; looked > limit {
				return
			}
			if _, handed := snapshot.HandedOff[id]; !handed && r.lostBy(snapshot.At, due) {
				o.s.handOff(r, now)
				r.recovered = now
				recovered = append(recovered, id)
			}
			if next = id; looked < limit {
				next = uuid.Nil
			}
		}
	})
	if err != nil {
		return nil, after, err
	}
	return recovered, next, nil
}

// lostBy reports whether the task was due for a while at the instant, and neither was nor is in work or recovered since.
// What has settled an assignment since then has made the task due later, or ended it, or given it back to a record.
func (r *row) lostBy(at time.Time, due time.Duration) bool {
	since := r.AvailableAt
	if r.Status == tasks.StatusRunning {
		since = r.LeaseUntil
	}
	return !since.After(at.Add(-due)) && r.recovered.Before(at)
}
