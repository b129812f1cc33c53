-- +goose Up

-- What people have had run again, or have moved, and why. A row is written before anything is changed, and its cursor with
-- each batch, so that the same command goes on where an interrupted one has stopped.
create table replays (
    id         uuid        not null primary key,
    kind       text        not null check (kind in ('range', 'tasks', 'rewind')),
    scope      text        not null, -- a hash of what the command asked for
    actor      text        not null, -- the user of the machine, and the machine
    reason     text        not null,
    plan       jsonb       not null, -- as it was shown
    cursor     jsonb       not null, -- what has been looked at
    rearmed    bigint      not null default 0,
    skipped    bigint      not null default 0,
    started_at timestamptz not null,
    updated_at timestamptz not null,
    done_at    timestamptz
);

create unique index replays_open on replays (scope) where done_at is null;

-- Which tasks a replay has given a new budget: each gets one, however often the replay is interrupted.
create table replayed_tasks (
    task_id    uuid        not null,
    replay_id  uuid        not null,
    rearmed_at timestamptz not null,
    primary key (task_id, replay_id)
);

-- +goose Down
drop table replayed_tasks, replays;
