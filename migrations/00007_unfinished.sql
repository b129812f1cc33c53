-- +goose Up

-- What a workspace has unfinished is counted before it may submit more: along this index, up to the bound, which is as long
-- as the backlog. The update that sets finished_at goes through the other indexes anyway.
create index reply_tasks_unfinished_of on reply_tasks (workspace) where finished_at is null;

-- +goose Down
drop index reply_tasks_unfinished_of;
