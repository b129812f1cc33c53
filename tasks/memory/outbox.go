package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// Outbox is the dispatcher's side of a Store: it implements outbox.Store. Safe for concurrent use.
type Outbox struct{ s *Store }

// Outbox returns the dispatcher's side of the store.
func (s *Store) Outbox() *Outbox { return &Outbox{s} }

type handoff struct {
	tasks.Handoff
	created time.Time
}

type shardLease struct {
	owner string
	until time.Time
}

// handOff adds a task to the outbox.
func (s *Store) handOff(r *row, now time.Time) {
	s.handoff++
	shard := tasks.Shard(r.Workspace, r.Conversation)
	s.outbox[shard] = append(s.outbox[shard], handoff{created: now, Handoff: tasks.Handoff{
		Shard: shard, ID: s.handoff, TaskID: r.ID, Workspace: r.Workspace, Conversation: r.Conversation,
		TraceParent: r.trace, AcceptedAt: r.AcceptedAt,
	}})
}

// Acquire registers owner and returns the shards that are its own for lease: see outbox.Store.
func (o *Outbox) Acquire(ctx context.Context, owner string, lease time.Duration) ([]int16, error) {
	var own []int16
	err := o.s.transact(ctx, "Acquire", func(now time.Time) {
		o.s.dispatchers[owner] = now.Add(lease)
		maps.DeleteFunc(o.s.dispatchers, func(_ string, until time.Time) bool { return !until.After(now) })
		live := max(1, len(o.s.dispatchers))
		share := (tasks.Shards + live - 1) / live
		for i := range o.s.shards { // what it has, up to its share
			if l := &o.s.shards[i]; l.owner == owner && len(own) < share {
				own, l.until = append(own, int16(i)), now.Add(lease)
			} else if l.owner == owner {
				*l = shardLease{}
			}
		}
		for i := range o.s.shards { // then what is free
			if l := &o.s.shards[i]; len(own) < share && l.owner != owner && !l.until.After(now) {
				own, *l = append(own, int16(i)), shardLease{owner, now.Add(lease)}
			}
		}
	})
	slices.Sort(own)
	return own, err
}

// Resign gives up every shard of owner.
func (o *Outbox) Resign(ctx context.Context, owner string) error {
	return o.s.transact(ctx, "Resign", func(time.Time) {
		delete(o.s.dispatchers, owner)
		for i := range o.s.shards {
			if o.s.shards[i].owner == owner {
				o.s.shards[i] = shardLease{}
			}
		}
	})
}

// Read returns up to limit handoffs of each mark's shard, in the order of their ids. Its horizon is the zero value.
func (o *Outbox) Read(ctx context.Context, marks []tasks.Mark, limit int) ([]tasks.Handoff, tasks.Horizon, error) {
	var out []tasks.Handoff
	err := o.s.transact(ctx, "Read", func(time.Time) {
		for _, m := range marks {
			rows := o.s.outbox[m.Shard]
			from, _ := slices.BinarySearchFunc(rows, m.After+1, func(h handoff, id int64) int { return cmp.Compare(h.ID, id) })
			for _, h := range rows[from:min(len(rows), from+max(0, limit))] {
				out = append(out, h.Handoff)
			}
		}
	})
	return out, tasks.Horizon{}, err
}

// Delete removes handoffs; one that is gone already is no error.
func (o *Outbox) Delete(ctx context.Context, published []tasks.Handoff) error {
	return o.s.transact(ctx, "Delete", func(time.Time) {
		gone := make(map[int64]bool, len(published))
		for _, h := range published {
			gone[h.ID] = true
		}
		for i := range o.s.outbox {
			o.s.outbox[i] = slices.DeleteFunc(o.s.outbox[i], func(h handoff) bool { return gone[h.ID] })
		}
	})
}

// Promote moves up to limit delayed handoffs that are due into the outbox, the longest due first, and returns how many.
// One of a task that ended meanwhile goes, and nothing comes of it.
func (o *Outbox) Promote(ctx context.Context, limit int) (int, error) {
	moved := 0
	err := o.s.transact(ctx, "Promote", func(now time.Time) {
		due := slices.SortedFunc(maps.Keys(o.s.delayed), func(a, b uuid.UUID) int {
			return cmp.Or(o.s.delayed[a].Compare(o.s.delayed[b]), compare(a, b))
		})
		for _, id := range due[:min(len(due), max(0, limit))] {
			if o.s.delayed[id].After(now) {
				return
			}
			delete(o.s.delayed, id)
			if r := o.s.tasks[id]; !r.Status.Terminal() {
				o.s.handOff(r, now)
				moved++
			}
		}
	})
	return moved, err
}

// Pending counts the handoffs that are not published, and says how long the oldest has waited.
func (o *Outbox) Pending(ctx context.Context) (count int64, oldest time.Duration, err error) {
	err = o.s.transact(ctx, "Pending", func(now time.Time) {
		for _, rows := range o.s.outbox {
			count += int64(len(rows))
			for _, h := range rows {
				oldest = max(oldest, now.Sub(h.created))
			}
		}
	})
	return count, oldest, err
}
