package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// The conversation is that of the message, whatever the work says (I8). Lengths are summed from the newest turn on, and
// only what is within the bound is sent: octet_length does not read a text that is stored outside of its row.
const historiesSQL = `
select i.n, c.earlier, h.seq, h.content, coalesce(h.reply, '')
from unnest($1::uuid[], $2::text[]) with ordinality as i (message_id, workspace, n)
join messages m on m.id = i.message_id and m.workspace = i.workspace
cross join lateral (
    select count(*) as earlier from (
        select from messages e where e.workspace = m.workspace and e.conversation = m.conversation and e.seq < m.seq
        limit $3::bigint + $5::bigint
    ) e
) c
left join lateral (
    select s.* from (
        select e.seq, e.content, p.text as reply,
            sum(octet_length(e.content) + coalesce(octet_length(p.text), 0)) over (order by e.seq desc) as bytes
        from (
            select e.id, e.seq, e.content from messages e
            where e.workspace = m.workspace and e.conversation = m.conversation and e.seq < m.seq
            order by e.seq desc limit $3::bigint
        ) e left join lateral (
            select p.text from replies p where p.message_id = e.id order by p.saved_at desc, p.id desc limit 1
        ) p on true
    ) s where s.bytes <= $4::bigint
) h on true
order by i.n, h.seq`

// Histories implements tasks.Store.
func (s *Store) Histories(ctx context.Context, limits tasks.HistoryLimits, items []*tasks.Work) ([]tasks.History, error) {
	out := make([]tasks.History, len(items))
	for _, part := range parts(indexes(len(items)), func(int) int { return 0 }) {
		rows, err := s.pool.Query(ctx, historiesSQL,
			uuids(items, part, func(w **tasks.Work) uuid.UUID { return (*w).MessageID }),
			texts(items, part, func(w **tasks.Work) string { return workspace((*w).Workspace) }),
			max(0, limits.Turns), max(0, limits.Bytes), tasks.MaxHistoryDropped)
		if err != nil {
			return nil, s.wrap(ctx, "read histories", err)
		}
		var place, earlier int
		var seq *int64
		var content *string
		var reply string
		_, err = pgx.ForEachRow(rows, []any{&place, &earlier, &seq, &content, &reply}, func() error {
			h := &out[part[place-1]]
			if seq != nil {
				h.Turns = append(h.Turns, tasks.Turn{Content: value(content), Reply: reply})
			}
			h.Dropped = min(earlier-len(h.Turns), tasks.MaxHistoryDropped)
			return nil
		})
		if err != nil {
			return nil, s.wrap(ctx, "read histories", err)
		}
	}
	return out, nil
}
