package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/offsets"
)

// Positions is safe for concurrent use. After an error of a call nobody knows whether it was done; it may be repeated.
type Positions struct{ pool *pgxpool.Pool }

// New uses a pool that its caller owns, on a database with package migrations' schema.
func New(pool *pgxpool.Pool) *Positions { return &Positions{pool: pool} }

// State is what is stored of one partition.
type State struct {
	Topic     string
	TopicID   [16]byte
	Partition int32
	Epoch     int64
	Owner     string // the worker that acquired it last
	Settled   []offsets.Run
	UpdatedAt time.Time // by the database's clock
}

const readSQL = `
select topic, topic_id, partition, owner_epoch, owner,
    array(select lower(r) from unnest(settled) r), array(select upper(r) from unnest(settled) r), updated_at
from partition_positions
where consumer_group = $1
order by topic, topic_id, partition`

// Read lists what is stored of a group, also of topics that are gone. It locks nothing.
func (p *Positions) Read(ctx context.Context, group string) ([]State, error) {
	rows, err := p.pool.Query(ctx, readSQL, group)
	if err != nil {
		return nil, fmt.Errorf("read positions: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s State, err error) {
		var from, to []int64
		err = row.Scan(&s.Topic, &s.TopicID, &s.Partition, &s.Epoch, &s.Owner, &from, &to, &s.UpdatedAt)
		s.Settled = runs(from, to)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("read positions: %w", err)
	}
	return list, nil
}

// runs pairs the bounds of spans, which the database keeps apart from each other and ascending.
func runs(from, to []int64) []offsets.Run {
	list := make([]offsets.Run, len(from))
	for i := range list {
		list[i] = offsets.Run{From: from[i], To: to[i]}
	}
	return list
}
