package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/offsets"
)

// The rows are locked before their epochs are looked at, and each is written once, with all its spans.
const settleSQL = `
with input as materialized (
    select * from unnest($1::text[], $2::uuid[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[])
        with ordinality as i (consumer_group, topic_id, partition, epoch, first, beyond, n)
), owned as materialized (
    select p.consumer_group, p.topic_id, p.partition, p.owner_epoch
    from (select distinct consumer_group, topic_id, partition from input) i
    join partition_positions p using (consumer_group, topic_id, partition)
    order by p.consumer_group, p.topic_id, p.partition for update of p
), good as materialized (
    select i.* from input i join owned o using (consumer_group, topic_id, partition) where o.owner_epoch = i.epoch
), stored as (
    update partition_positions p set settled = p.settled + g.spans, updated_at = clock_timestamp()
    from (select consumer_group, topic_id, partition, range_agg(int8range(first, beyond)) as spans from good group by 1, 2, 3) g
    where p.consumer_group = g.consumer_group and p.topic_id = g.topic_id and p.partition = g.partition
)
select n from good`

// Settle stores places of records that ended without a settle of their own. False: the partition has a newer owner, or
// was never acquired, and nothing was stored for it. Answers stand in the order of the places.
func (p *Positions) Settle(ctx context.Context, places []offsets.Place) ([]bool, error) {
	if len(places) == 0 {
		return nil, nil
	}
	rows, err := p.pool.Query(ctx, settleSQL,
		column(places, func(p *offsets.Place) string { return p.Group }),
		column(places, func(p *offsets.Place) [16]byte { return p.TopicID }),
		column(places, func(p *offsets.Place) int32 { return p.Partition }),
		column(places, func(p *offsets.Place) int64 { return p.Epoch }),
		column(places, func(p *offsets.Place) int64 { return p.From }),
		column(places, func(p *offsets.Place) int64 { return max(p.From, p.To) }))
	if err != nil {
		return nil, fmt.Errorf("settle places: %w", err)
	}
	out := make([]bool, len(places))
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&n}, func() error { out[n-1] = true; return nil }); err != nil {
		return nil, fmt.Errorf("settle places: %w", err)
	}
	return out, nil
}
