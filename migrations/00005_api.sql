-- +goose Up

-- A request that came through the OpenAI-compatible door keeps what it said beyond the other columns: its messages and
-- parameters, as the caller sent them. A reply that is more than text keeps the message as the provider made it. It is
-- JSON in text: each attempt sends the same bytes, jsonb would change numbers and the order of keys and refuse \u0000.
alter table task_requests
    add column chat_messages text, -- an array; null where the request did not come that way
    add column chat_params   text; -- an object; null where there are none
alter table replies add column message text;

-- A finished task may be deleted when its key is forgotten; and one that brought a message, when no task that answers the
-- message anew is left.
alter table task_requests add column key_expires_at timestamptz; -- null: not noted
create index reply_tasks_regenerated on reply_tasks (message_id) where kind = 'regenerate';

-- How often a key brought back its task instead of new work.
alter table submissions add column replays bigint not null default 0;

-- What a key may be used for, and when it was last used, to within a minute.
alter table api_keys
    add column scopes       text[] not null default '{submit,read,admin}',
    add column last_used_at timestamptz;

-- +goose Down
alter table api_keys drop column scopes, drop column last_used_at;
alter table submissions drop column replays;
alter table replies drop column message;
alter table task_requests drop column chat_messages, drop column chat_params, drop column key_expires_at;
drop index reply_tasks_regenerated;
