-- +goose Up

-- Positions kept with the replies: what is settled of a partition, a row each. The row is rewritten by every batch that
-- settles a record of the partition, so its page has room for several versions of it, and no index holds what changes.
-- A topic that is made again under its name has another id, and begins with a row of its own.
create table partition_positions (
    consumer_group text           not null,
    topic_id       uuid           not null,
    partition      integer        not null,
    topic          text           not null,
    owner_epoch    bigint         not null, -- counts the owners; only the latest one's stores are accepted (I4)
    owner          text           not null,
    settled        int8multirange not null,
    updated_at     timestamptz    not null,
    primary key (consumer_group, topic_id, partition)
) with (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- +goose Down
drop table partition_positions;
