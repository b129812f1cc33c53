package postgres

import (
	"context"

	"github.com/fencepost/fencepost/offsets"
	positions "github.com/fencepost/fencepost/offsets/postgres"
	"github.com/fencepost/fencepost/tasks"
)

// own acquires the partition of a place.
func (k *kit) own(p tasks.Place) int64 {
	k.Helper()
	out, err := positions.New(k.store.pool).Acquire(context.Background(), "worker",
		[]offsets.Begin{{Group: p.Group, Topic: "t", TopicID: p.TopicID, Partition: p.Partition, End: 1 << 40}})
	if err != nil {
		k.Fatal(err)
	}
	return out[0].Epoch
}

// kept are the spans that are stored of the partition of a place.
func (k *kit) kept(p tasks.Place) (spans [][2]int64) {
	k.Helper()
	states, err := positions.New(k.store.pool).Read(context.Background(), p.Group)
	if err != nil {
		k.Fatal(err)
	}
	for _, s := range states {
		if s.TopicID == p.TopicID && s.Partition == p.Partition {
			for _, r := range s.Settled {
				spans = append(spans, [2]int64{r.From, r.To})
			}
		}
	}
	return spans
}
