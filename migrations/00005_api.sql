-- +goose Up

-- A request that came through the OpenAI-compatible door keeps what it said beyond the other columns: its messages and
-- parameters, as the caller sent them. A reply that is more than text keeps the message as the provider made it.
alter table task_requests add column chat jsonb; -- {"messages": [...], "params": {...}}
alter table replies add column message jsonb;

-- How often a key brought back its task instead of new work.
alter table submissions add column replays integer not null default 0;

-- What a key may be used for, and when it was last used, to within a minute.
alter table api_keys
    add column scopes       text[] not null default '{submit,read,admin}',
    add column last_used_at timestamptz;

-- +goose Down
alter table api_keys drop column scopes, drop column last_used_at;
alter table submissions drop column replays;
alter table replies drop column message;
alter table task_requests drop column chat;
