package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/offsets"
)

// ErrChanged: what is stored is not what the operator has seen, and nothing was moved.
var ErrChanged = errors.New("stored positions have changed in between")

// The rows are locked, in the order of their key, before they are compared. The epoch is raised, so that an owner which has
// not heard of the move cannot store what it settles into the positions that were moved (I4).
const moveSQL = `
with input as materialized (
    select * from unnest($2::text[], $3::uuid[], $4::integer[], $5::text[], $6::text[])
        as i (consumer_group, topic_id, partition, was, settled)
), owned as materialized (
    select p.consumer_group, p.topic_id, p.partition, p.settled
    from input i join partition_positions p using (consumer_group, topic_id, partition)
    order by p.consumer_group, p.topic_id, p.partition for update of p
), same as materialized (
    select i.* from input i join owned o using (consumer_group, topic_id, partition) where o.settled = i.was::int8multirange
)
update partition_positions p set settled = s.settled::int8multirange, owner_epoch = p.owner_epoch + 1, owner = $1,
    updated_at = clock_timestamp()
from same s
where p.consumer_group = s.consumer_group and p.topic_id = s.topic_id and p.partition = s.partition
    and (select count(*) from same) = (select count(*) from input)`

// Move sets what is settled of partitions, all of them or none, and makes mover their owner: stores under older epochs are
// refused from here on. ErrChanged, also of a partition that has no row; offsets.ErrInvalid: a partition is named twice.
func (p *Positions) Move(ctx context.Context, mover string, items []offsets.Move) error {
	if len(items) == 0 {
		return nil
	}
	if err := distinct(begins(items)); err != nil {
		return err
	}
	tag, err := p.pool.Exec(ctx, moveSQL, mover,
		column(items, func(m *offsets.Move) string { return m.Group }),
		column(items, func(m *offsets.Move) [16]byte { return m.TopicID }),
		column(items, func(m *offsets.Move) int32 { return m.Partition }),
		column(items, func(m *offsets.Move) string { return multirange(m.Was) }),
		column(items, func(m *offsets.Move) string { return multirange(m.To) }))
	switch {
	case err != nil:
		return fmt.Errorf("move positions: %w", err)
	case tag.RowsAffected() != int64(len(items)):
		return fmt.Errorf("move positions: %w", ErrChanged)
	}
	return nil
}

func begins(items []offsets.Move) []offsets.Begin {
	out := make([]offsets.Begin, len(items))
	for i, m := range items {
		out[i] = offsets.Begin{Group: m.Group, TopicID: m.TopicID, Partition: m.Partition}
	}
	return out
}
