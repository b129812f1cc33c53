package postgres

import (
	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// A batch with places (positions kept with the replies) is settled by a statement of its own, so that one without pays
// nothing for them. It is the same up to the moves; then come the rows of partition_positions, which belong to package
// offsets/postgres. They are locked after all task rows, in the order of their key, and only then are their epochs
// compared: a join alone would look at an epoch that may be another by the time the row can be written.
//
// The lock lasts until the transaction has ended, so settles of one partition come one after another. Whoever holds the
// row from outside holds up every batch with a place in that partition.

const placeArrays = `, $26::text[], $27::uuid[], $28::integer[], $29::bigint[], $30::bigint[], $31::bigint[]`

const placeColumns = `, consumer_group, topic_id, partition, owner_epoch, first, beyond`

// A record has ended with its task, or with the handoff that stands for it from now on.
const placeEnded = `
, placed as materialized (
    select j.n, j.verdict, j.next, j.consumer_group, j.topic_id, j.partition, j.owner_epoch, j.first, j.beyond,
        j.owner_epoch is not null and (j.next in ('completed', 'failed', 'cancelled')
            or j.outcome = 'retry' and j.handoff and j.verdict in ('accepted', 'repeated')) as ended
    from judged j`

// What the waiting statement does not find is not there.
const placeMissing = `
    union all
    select i.n, 'missing', '', i.consumer_group, i.topic_id, i.partition, i.owner_epoch, i.first, i.beyond, i.owner_epoch is not null
    from input i where not exists (select from locked l where l.n = i.n)`

const placeAnswer = `
), owned as materialized (
    select p.consumer_group, p.topic_id, p.partition, p.owner_epoch
    from (select distinct consumer_group, topic_id, partition from placed where ended) d
    join partition_positions p using (consumer_group, topic_id, partition)
    order by p.consumer_group, p.topic_id, p.partition for update of p
), fated as materialized (
    select d.*, d.ended and o.owner_epoch is not null as good
    from placed d left join owned o using (consumer_group, topic_id, partition, owner_epoch)
), kept as (
    update partition_positions p set settled = p.settled + g.spans, updated_at = clock_timestamp()
    from (select consumer_group, topic_id, partition, range_agg(int8range(first, beyond)) as spans from fated where good group by 1, 2, 3) g
    where p.consumer_group = g.consumer_group and p.topic_id = g.topic_id and p.partition = g.partition
)
select f.n, f.verdict, f.next, f.ended and not f.good as fenced from fated f`

const (
	settlePlacedFreeSQL = settleInput + placeArrays + settleColumns + placeColumns + settleLocked + ` skip locked` + settleMoves +
		settleCharged + settleSpend + placeEnded + placeAnswer
	settlePlacedHeldSQL = settleInput + placeArrays + settleColumns + placeColumns + settleLocked + settleMoves +
		settleCharged + settleSpend + placeEnded + placeMissing + placeAnswer
)

// settlePlacedArgs makes nothing of a place that could fail the statement: a reply is not lost for its position.
func settlePlacedArgs(items []tasks.Settlement, part []int) []any {
	type item = tasks.Settlement
	return append(settleArgs(items, part),
		texts(items, part, func(s *item) string { return workspace(s.Place.Group) }),
		uuids(items, part, func(s *item) uuid.UUID { return s.Place.TopicID }),
		column(items, part, func(s *item) int32 { return s.Place.Partition }),
		column(items, part, func(s *item) *int64 {
			if s.Place.Zero() {
				return nil
			}
			return &s.Place.Epoch
		}),
		column(items, part, func(s *item) int64 { return s.Place.From }),
		column(items, part, func(s *item) int64 { return max(s.Place.From, s.Place.To) }))
}
