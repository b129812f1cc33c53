-- +goose Up

-- What a lost answer can be looked up by, and what was sent: written while the attempt runs, where its provider has a
-- way to recover. An attempt that brought the answer of an earlier one names it.
alter table attempts
    add column provider_ref      text,
    add column request_hash      bytea,
    add column recovered_version bigint,  -- the assignment_version of the attempt that had made the answer
    add column history_turns     integer, -- of the conversation, sent along
    add column history_dropped   integer, -- and left out, to keep within the limits
    add column presumed_picousd  bigint;  -- what a budget was charged for it when its task went on without it

alter table task_requests add column prompt_template_version text not null default '';

-- What a task may cost at most was taken from its workspace's budget when it was accepted; null where there was none.
alter table reply_tasks
    add column reserved_picousd bigint,
    add column reserved_on      date; -- the day whose budget it is, in UTC

-- Caps on what a workspace may spend in a day, and what was spent and reserved of them.
create table budgets (
    workspace       text        not null primary key,
    per_day_picousd bigint      not null check (per_day_picousd >= 0),
    updated_at      timestamptz not null
);

-- A day of a workspace, as its latest submission has left it.
create table budget_days (
    workspace text   not null,
    day       date   not null,
    spent     bigint not null default 0,
    reserved  bigint not null default 0,
    primary key (workspace, day)
) with (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- What has become of reservations since then; the next submission adds it up. Insert-only, so that nothing that settles
-- waits for a submission.
create table budget_changes (
    workspace text   not null,
    day       date   not null,
    spent     bigint not null,
    reserved  bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

create index budget_changes_by_day on budget_changes (day, workspace);

-- The text of running attempts, for those who watch. It is worth nothing once the attempt has ended, so that it is not
-- logged: a crash of the database empties the table.
create unlogged table live_texts (
    task_id            uuid        not null,
    assignment_version bigint      not null,
    first_index        integer     not null, -- of the tokens in the piece
    attempt            integer     not null,
    tokens             integer     not null,
    text               text        not null, -- empty in the first piece that is too much
    bytes              bigint      not null, -- of the attempt's text up to this piece
    created_at         timestamptz not null,
    primary key (task_id, assignment_version, first_index)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

create index live_texts_by_age on live_texts (created_at);

-- +goose Down
drop table live_texts, budget_changes, budget_days, budgets;
alter table reply_tasks drop column reserved_picousd, drop column reserved_on;
alter table task_requests drop column prompt_template_version;
alter table attempts
    drop column provider_ref,
    drop column request_hash,
    drop column recovered_version,
    drop column history_turns,
    drop column history_dropped,
    drop column presumed_picousd;
