-- +goose Up

-- Reply tasks are narrow: every transition rewrites the row, so no request or response text is in it, and no index
-- holds a column that a claim, a renewal or a retry changes. Those updates stay heap-only; only the last one, which
-- sets finished_at, touches the indexes. The fillfactor leaves room on a page for one new version of each of its rows.
create table reply_tasks (
    id                 uuid        not null primary key,
    workspace          text        not null,
    conversation       text        not null,
    message_id         uuid        not null,
    kind               text        not null check (kind in ('reply', 'regenerate')),
    regenerates        uuid,
    status             text        not null check (status in ('queued', 'running', 'completed', 'failed', 'cancelled')),
    assignment_version bigint      not null default 0,
    lease_until        timestamptz,
    worker             text,
    attempts           integer     not null default 0,
    max_attempts       integer     not null,
    interruptions      integer     not null default 0,
    max_interruptions  integer     not null,
    on_ambiguous       text        not null check (on_ambiguous in ('retry', 'stop')),
    accepted_at        timestamptz not null,
    available_at       timestamptz not null,
    deadline           timestamptz not null,
    finished_at        timestamptz,
    failure_class      text,
    failure_message    text,
    failure_attempt    integer,
    reply_id           uuid, -- of the saved reply: what a repeated settle is compared with
    check (attempts <= max_attempts),
    check ((finished_at is not null) = (status in ('completed', 'failed', 'cancelled')))
) with (fillfactor = 45);

create index reply_tasks_by_workspace on reply_tasks (workspace, id);
create index reply_tasks_by_conversation on reply_tasks (workspace, conversation, id);
-- What recovery and the lists of pending work read: as large as the backlog, not as the table.
create index reply_tasks_unfinished on reply_tasks (id) where finished_at is null;

-- What a person wrote. seq orders a conversation.
create table messages (
    id           uuid        not null primary key,
    seq          bigint      not null generated always as identity,
    workspace    text        not null,
    conversation text        not null,
    content      text        not null,
    created_at   timestamptz not null
);

create index messages_by_conversation on messages (workspace, conversation, seq);

-- What is asked of the model for a task, beside the message. Insert-only.
create table task_requests (
    task_id           uuid not null primary key,
    model             text not null,
    system            text not null,
    prompt_template   text not null,
    document_id       text not null,
    document_version  text not null,
    temperature       double precision,
    max_output_tokens integer,
    metadata          jsonb not null,
    trace_parent      text not null
);

-- Saved responses: at most one for each task (I1). Insert-only.
create table replies (
    task_id       uuid        not null primary key,
    id            uuid        not null,
    message_id    uuid        not null,
    text          text        not null,
    model         text        not null,
    finish_reason text        not null,
    attempt       integer     not null,
    saved_at      timestamptz not null
);

create index replies_by_message on replies (message_id);

-- The ledger: written before the call with outcome 'unknown', completed when the call ended. A number that is not
-- known is null, never 0 (I7).
create table attempts (
    task_id             uuid        not null,
    assignment_version  bigint      not null,
    attempt             integer     not null,
    worker              text        not null,
    provider            text        not null,
    model               text        not null,
    started_at          timestamptz not null,
    ended_at            timestamptz,
    outcome             text        not null default 'unknown' check (outcome in ('accepted', 'not_accepted', 'failed', 'unknown')),
    failure_class       text,
    wire_requests       integer,
    provider_request_id text,
    input_tokens        bigint,
    output_tokens       bigint,
    picousd             bigint,
    primary key (task_id, assignment_version)
) with (fillfactor = 45);

-- Idempotency keys.
create table submissions (
    workspace   text        not null,
    operation   text        not null,
    key         text        not null,
    fingerprint bytea       not null,
    task_id     uuid        not null,
    created_at  timestamptz not null,
    expires_at  timestamptz not null,
    primary key (workspace, operation, key)
);

create index submissions_by_expiry on submissions (expires_at);

-- The outbox. A row is deleted when the broker has acknowledged its record, so the table is as large as what is not yet
-- published. A shard is read by one dispatcher at a time, which keeps the order of a conversation: all its handoffs
-- share a shard, and ids grow in the order of its messages.
create table handoffs (
    shard        smallint    not null,
    id           bigint      not null generated always as identity,
    task_id      uuid        not null,
    workspace    text        not null,
    conversation text        not null,
    trace_parent text        not null,
    accepted_at  timestamptz not null,
    created_at   timestamptz not null,
    primary key (shard, id)
);

-- Handoffs that are to be published later; the dispatcher moves them over when they are due.
create table delayed_handoffs (
    task_id   uuid        not null primary key,
    workspace text        not null,
    due_at    timestamptz not null
);

create index delayed_handoffs_due on delayed_handoffs (due_at);

-- Who reads which shard of the outbox. The lease bounds a takeover after a crash; two readers of one shard would
-- publish twice, which is harmless.
create table dispatchers (
    owner       text        not null primary key,
    lease_until timestamptz not null
);

create table outbox_shards (
    shard       smallint    not null primary key,
    owner       text,
    lease_until timestamptz
);

insert into outbox_shards (shard) select generate_series(0, 15);

-- API keys: the SHA-256 of the secret, never the secret.
create table api_keys (
    id         uuid        not null primary key,
    workspace  text        not null,
    name       text        not null,
    hash       bytea       not null unique,
    created_at timestamptz not null,
    revoked_at timestamptz
);

create index api_keys_by_workspace on api_keys (workspace, id);

-- Rows of these tables are rewritten or deleted soon after they were written: vacuum by count, not by share.
alter table reply_tasks set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
alter table handoffs set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
alter table delayed_handoffs set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- +goose Down
drop table api_keys, outbox_shards, dispatchers, delayed_handoffs, handoffs, submissions, attempts, replies,
    task_requests, messages, reply_tasks;
