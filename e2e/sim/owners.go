package sim

import (
	"context"

	"github.com/fencepost/fencepost/offsets"
	"github.com/fencepost/fencepost/tasks"
)

// owners are positions kept with the replies in the model store, as a process reaches them.
type owners struct{ l *link }

// Acquire implements consumer.Owners.
func (o owners) Acquire(ctx context.Context, _ string, items []offsets.Begin) ([]offsets.Begun, error) {
	return plain(ctx, o.l, "Own", func(context.Context) ([]offsets.Begun, error) {
		out := make([]offsets.Begun, len(items))
		for i, b := range items {
			var known [][2]int64
			for _, r := range b.Settled {
				known = append(known, [2]int64{r.From, r.To})
			}
			owned, settled := o.l.database.Store.Own(tasks.Place{Group: b.Group, TopicID: b.TopicID, Partition: b.Partition}, known, b.End)
			out[i].Owner = offsets.Owner{Group: b.Group, TopicID: b.TopicID, Partition: b.Partition, Epoch: owned.Epoch}
			for _, s := range settled {
				out[i].Settled = append(out[i].Settled, offsets.Run{From: s[0], To: s[1]})
			}
		}
		return out, nil
	})
}

// Settle implements consumer.Owners.
func (o owners) Settle(ctx context.Context, places []offsets.Place) ([]bool, error) {
	return plain(ctx, o.l, "Keep", func(context.Context) ([]bool, error) {
		list := make([]tasks.Place, len(places))
		for i, p := range places {
			list[i] = tasks.Place{Group: p.Group, TopicID: p.TopicID, Partition: p.Partition, Epoch: p.Epoch, From: p.From, To: p.To}
		}
		kept := o.l.database.Store.Keep(list)
		for _, ok := range kept {
			if !ok {
				o.l.rec.count("place refused to a former owner")
			}
		}
		return kept, nil
	})
}
