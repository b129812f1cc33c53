package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/offsets"
)

// Rows are inserted, or locked, in the order of their key. The end is looked up by the key again, because an update on
// conflict can name columns of the table only.
const acquireSQL = `
with input as materialized (
    select * from unnest($2::text[], $3::uuid[], $4::integer[], $5::text[], $6::text[], $7::bigint[])
        with ordinality as i (consumer_group, topic_id, partition, topic, settled, log_end, n)
), owned as (
    insert into partition_positions as p (consumer_group, topic_id, partition, topic, owner_epoch, owner, settled, updated_at)
    select i.consumer_group, i.topic_id, i.partition, i.topic, 1, $1,
        i.settled::int8multirange * int8multirange(int8range(0, i.log_end)), clock_timestamp()
    from input i
    order by i.consumer_group, i.topic_id, i.partition
    on conflict (consumer_group, topic_id, partition) do update set
        topic = excluded.topic,
        owner_epoch = p.owner_epoch + 1,
        owner = excluded.owner,
        settled = (p.settled + excluded.settled) * (select int8multirange(int8range(0, i.log_end)) from input i
            where i.consumer_group = excluded.consumer_group and i.topic_id = excluded.topic_id and i.partition = excluded.partition),
        updated_at = clock_timestamp()
    returning consumer_group, topic_id, partition, owner_epoch, settled
)
select i.n, o.owner_epoch, array(select lower(r) from unnest(o.settled) r), array(select upper(r) from unnest(o.settled) r)
from owned o join input i using (consumer_group, topic_id, partition)`

// Acquire makes worker the owner of each partition: stores under older epochs are refused from here on. All or none; the
// answers stand in the order of the items. offsets.ErrInvalid: a partition is named twice.
func (p *Positions) Acquire(ctx context.Context, worker string, items []offsets.Begin) ([]offsets.Begun, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if err := distinct(items); err != nil {
		return nil, err
	}
	rows, err := p.pool.Query(ctx, acquireSQL, worker,
		column(items, func(b *offsets.Begin) string { return b.Group }),
		column(items, func(b *offsets.Begin) [16]byte { return b.TopicID }),
		column(items, func(b *offsets.Begin) int32 { return b.Partition }),
		column(items, func(b *offsets.Begin) string { return b.Topic }),
		column(items, func(b *offsets.Begin) string { return multirange(given(b)) }),
		column(items, func(b *offsets.Begin) int64 { return max(0, b.End) }))
	if err != nil {
		return nil, fmt.Errorf("acquire partitions: %w", err)
	}
	out := make([]offsets.Begun, len(items))
	var n int
	var epoch int64
	var from, to []int64
	got, err := pgx.ForEachRow(rows, []any{&n, &epoch, &from, &to}, func() error {
		item := &items[n-1]
		out[n-1] = offsets.Begun{
			Owner:   offsets.Owner{Group: item.Group, TopicID: item.TopicID, Partition: item.Partition, Epoch: epoch},
			Settled: runs(from, to),
		}
		return nil
	})
	if err == nil && got.RowsAffected() != int64(len(items)) {
		err = fmt.Errorf("%d of %d were answered", got.RowsAffected(), len(items))
	}
	if err != nil {
		return nil, fmt.Errorf("acquire partitions: %w", err)
	}
	return out, nil
}

// given is what the group's commit says of this log. A position beyond the log's end was committed for another: cut off at
// the end it would declare the whole of this one settled.
func given(b *offsets.Begin) []offsets.Run {
	if len(b.Settled) > 0 && b.Settled[0].From == 0 && b.Settled[0].To > b.End {
		return nil
	}
	return b.Settled
}

func distinct(items []offsets.Begin) error {
	seen := make(map[offsets.Owner]bool, len(items))
	for i := range items {
		key := offsets.Owner{Group: items[i].Group, TopicID: items[i].TopicID, Partition: items[i].Partition}
		if seen[key] {
			return fmt.Errorf("acquire partition %d of %s twice: %w", key.Partition, items[i].Topic, offsets.ErrInvalid)
		}
		seen[key] = true
	}
	return nil
}

// multirange is the text of runs. What is not a run is left out: it would fail the call for every partition.
func multirange(list []offsets.Run) string {
	b := []byte{'{'}
	for _, r := range list {
		if r.From < 0 || r.To <= r.From {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendInt(b, r.From, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, r.To, 10)
		b = append(b, ')')
	}
	return string(append(b, '}'))
}

// column makes the array parameter of one field.
func column[T, V any](items []T, value func(*T) V) []V {
	all := make([]V, len(items))
	for i := range items {
		all[i] = value(&items[i])
	}
	return all
}
