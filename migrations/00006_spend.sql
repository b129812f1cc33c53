-- +goose Up

-- What a name is called in the sums, whose keys have to fit into an index: a long one is cut, and stays apart from others
-- by its hash. tasks.SpendName is the same.
-- +goose StatementBegin
create function spend_name(name text) returns text stable language sql as $$
    select case when octet_length(name) <= 512 then name
        else left(name, 100) || '#' || encode(sha256(convert_to(name, 'UTF8')), 'hex') end
$$;
-- +goose StatementEnd

-- What has become of the ledger since it was last added up: an image of an attempt's row that counts from now on (sign 1),
-- or counts no more (-1), or a replay (0), which saved picousd. The document and the conversation are the task's. Insert-only,
-- so that nothing that settles waits for another.
create table spend_changes (
    task_id             uuid     not null,
    input_tokens        bigint,
    cached_input_tokens bigint,
    output_tokens       bigint,
    reasoning_tokens    bigint,
    picousd             bigint,
    day                 date     not null, -- on which the attempt began, in UTC, or the replay was
    sign                smallint not null,
    unknown             boolean  not null, -- it may have been charged, and nothing is known of it
    unpriced            boolean  not null, -- its tokens are known and its amount is not
    not_accepted        boolean  not null, -- it was paid for, and its answer is not the reply
    workspace           text     collate "C" not null,
    model               text     not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

create index spend_changes_by_workspace on spend_changes (workspace, task_id);

-- The sums, each by what its page is in the order of. They grow without end in number, hence numeric. Rows of days that have
-- gone by are hardly written any more; those of today are, over and over.
create table spend_days (
    workspace            text    collate "C" not null,
    day                  date    not null,
    model                text    collate "C" not null,
    attempts             bigint  not null,
    unknown_attempts     bigint  not null,
    unpriced_attempts    bigint  not null,
    input_tokens         numeric not null,
    cached_input_tokens  numeric not null,
    output_tokens        numeric not null,
    reasoning_tokens     numeric not null,
    picousd              numeric not null,
    not_accepted         bigint  not null,
    not_accepted_picousd numeric not null,
    replays              bigint  not null,
    saved_picousd        numeric not null,
    primary key (workspace, day, model)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

create table spend_documents (
    workspace            text    collate "C" not null,
    document_id          text    collate "C" not null, -- empty: of none
    document_version     text    collate "C" not null,
    day                  date    not null,
    model                text    collate "C" not null,
    attempts             bigint  not null,
    unknown_attempts     bigint  not null,
    unpriced_attempts    bigint  not null,
    input_tokens         numeric not null,
    cached_input_tokens  numeric not null,
    output_tokens        numeric not null,
    reasoning_tokens     numeric not null,
    picousd              numeric not null,
    not_accepted         bigint  not null,
    not_accepted_picousd numeric not null,
    replays              bigint  not null,
    saved_picousd        numeric not null,
    primary key (workspace, document_id, document_version, day, model)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);

create table spend_conversations (
    workspace            text    collate "C" not null,
    conversation         text    collate "C" not null,
    document_id          text    collate "C" not null,
    day                  date    not null,
    attempts             bigint  not null,
    unknown_attempts     bigint  not null,
    unpriced_attempts    bigint  not null,
    input_tokens         numeric not null,
    cached_input_tokens  numeric not null,
    output_tokens        numeric not null,
    reasoning_tokens     numeric not null,
    picousd              numeric not null,
    not_accepted         bigint  not null,
    not_accepted_picousd numeric not null,
    replays              bigint  not null,
    saved_picousd        numeric not null,
    primary key (workspace, conversation, document_id, day)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);

create index spend_conversations_by_document on spend_conversations (workspace, document_id, conversation, day) where document_id <> '';

-- What there is of a ledger already, but for attempts that are under way.
insert into spend_changes (workspace, task_id, day, model, sign, unknown, unpriced, not_accepted, input_tokens, cached_input_tokens,
    output_tokens, reasoning_tokens, picousd)
select t.workspace, a.task_id, (a.started_at at time zone 'utc')::date, a.model, 1,
    a.picousd is null and a.input_tokens is null and a.output_tokens is null and (a.ended_at is null or a.wire_requests > 0),
    a.picousd is null and (a.input_tokens is not null or a.output_tokens is not null) and (a.ended_at is null or a.wire_requests > 0),
    a.outcome in ('not_accepted', 'failed') and (a.picousd > 0 or a.input_tokens > 0 or a.output_tokens > 0) is true
        and not exists (select from attempts r where r.task_id = a.task_id and r.recovered_version = a.assignment_version and r.outcome = 'accepted'),
    a.input_tokens, a.cached_input_tokens, a.output_tokens, a.reasoning_tokens, a.picousd
from attempts a join reply_tasks t on t.id = a.task_id
where a.ended_at is not null or t.status <> 'running' or t.assignment_version <> a.assignment_version;

-- +goose Down
drop table spend_changes, spend_days, spend_documents, spend_conversations;
drop function spend_name;
