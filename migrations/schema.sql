-- What the migrations make of an empty database. Written by `go test ./migrations -update`; not a migration.

create table api_keys (
    id uuid not null,
    workspace text not null,
    name text not null,
    hash bytea not null,
    created_at timestamp with time zone not null,
    revoked_at timestamp with time zone,
    scopes text[] not null default '{submit,read,admin}'::text[],
    last_used_at timestamp with time zone,
    constraint api_keys_hash_key UNIQUE (hash),
    constraint api_keys_pkey PRIMARY KEY (id)
);
CREATE INDEX api_keys_by_workspace ON public.api_keys USING btree (workspace, id);

create table attempts (
    task_id uuid not null,
    assignment_version bigint not null,
    attempt integer not null,
    worker text not null,
    provider text not null,
    model text not null,
    started_at timestamp with time zone not null,
    ended_at timestamp with time zone,
    outcome text not null default 'unknown'::text,
    failure_class text,
    wire_requests integer,
    provider_request_id text,
    input_tokens bigint,
    output_tokens bigint,
    picousd bigint,
    cached_input_tokens bigint,
    reasoning_tokens bigint,
    price_version text,
    provider_ref text,
    request_hash bytea,
    recovered_version bigint,
    history_turns integer,
    history_dropped integer,
    presumed_picousd bigint,
    constraint attempts_outcome_check CHECK ((outcome = ANY (ARRAY['accepted'::text, 'not_accepted'::text, 'failed'::text, 'unknown'::text]))),
    constraint attempts_pkey PRIMARY KEY (task_id, assignment_version)
) with (fillfactor=45);

create table budget_changes (
    workspace text not null,
    day date not null,
    spent bigint not null,
    reserved bigint not null
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0);
CREATE INDEX budget_changes_by_day ON public.budget_changes USING btree (day, workspace);

create table budget_days (
    workspace text not null,
    day date not null,
    spent bigint not null default 0,
    reserved bigint not null default 0,
    constraint budget_days_pkey PRIMARY KEY (workspace, day)
) with (fillfactor=10, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000, autovacuum_vacuum_cost_delay=0);

create table budgets (
    workspace text not null,
    per_day_picousd bigint not null,
    updated_at timestamp with time zone not null,
    constraint budgets_per_day_picousd_check CHECK ((per_day_picousd >= 0)),
    constraint budgets_pkey PRIMARY KEY (workspace)
);

create table delayed_handoffs (
    task_id uuid not null,
    workspace text not null,
    due_at timestamp with time zone not null,
    constraint delayed_handoffs_pkey PRIMARY KEY (task_id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000);
CREATE INDEX delayed_handoffs_due ON public.delayed_handoffs USING btree (due_at);

create table dispatchers (
    owner text not null,
    lease_until timestamp with time zone not null,
    constraint dispatchers_pkey PRIMARY KEY (owner)
);

create table handoffs (
    shard smallint not null,
    id bigint not null generated always as identity,
    task_id uuid not null,
    workspace text not null,
    conversation text not null,
    trace_parent text not null,
    accepted_at timestamp with time zone not null,
    created_at timestamp with time zone not null,
    constraint handoffs_pkey PRIMARY KEY (shard, id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0);

create table live_texts (
    task_id uuid not null,
    assignment_version bigint not null,
    first_index integer not null,
    attempt integer not null,
    tokens integer not null,
    text text not null,
    bytes bigint not null,
    created_at timestamp with time zone not null,
    constraint live_texts_pkey PRIMARY KEY (task_id, assignment_version, first_index)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0);
CREATE INDEX live_texts_by_age ON public.live_texts USING btree (created_at);

create table messages (
    id uuid not null,
    seq bigint not null generated always as identity,
    workspace text not null,
    conversation text not null,
    content text not null,
    created_at timestamp with time zone not null,
    constraint messages_pkey PRIMARY KEY (id)
);
CREATE INDEX messages_by_conversation ON public.messages USING btree (workspace, conversation, seq);

create table outbox_shards (
    shard smallint not null,
    owner text,
    lease_until timestamp with time zone,
    constraint outbox_shards_pkey PRIMARY KEY (shard)
);

create table partition_positions (
    consumer_group text not null,
    topic_id uuid not null,
    partition integer not null,
    topic text not null,
    owner_epoch bigint not null,
    owner text not null,
    settled int8multirange not null,
    updated_at timestamp with time zone not null,
    constraint partition_positions_pkey PRIMARY KEY (consumer_group, topic_id, partition)
) with (fillfactor=10, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000, autovacuum_vacuum_cost_delay=0);

create table replayed_tasks (
    task_id uuid not null,
    replay_id uuid not null,
    rearmed_at timestamp with time zone not null,
    constraint replayed_tasks_pkey PRIMARY KEY (task_id, replay_id)
);

create table replays (
    id uuid not null,
    kind text not null,
    scope text not null,
    actor text not null,
    reason text not null,
    plan jsonb not null,
    cursor jsonb not null,
    rearmed bigint not null default 0,
    skipped bigint not null default 0,
    started_at timestamp with time zone not null,
    updated_at timestamp with time zone not null,
    done_at timestamp with time zone,
    constraint replays_kind_check CHECK ((kind = ANY (ARRAY['range'::text, 'tasks'::text, 'rewind'::text]))),
    constraint replays_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX replays_open ON public.replays USING btree (scope) WHERE (done_at IS NULL);

create table replies (
    task_id uuid not null,
    id uuid not null,
    message_id uuid not null,
    text text not null,
    model text not null,
    finish_reason text not null,
    attempt integer not null,
    saved_at timestamp with time zone not null,
    message text,
    constraint replies_pkey PRIMARY KEY (task_id)
);
CREATE INDEX replies_by_message ON public.replies USING btree (message_id);

create table reply_tasks (
    id uuid not null,
    workspace text not null,
    conversation text not null,
    message_id uuid not null,
    kind text not null,
    regenerates uuid,
    status text not null,
    assignment_version bigint not null default 0,
    lease_until timestamp with time zone,
    worker text,
    attempts integer not null default 0,
    max_attempts integer not null,
    interruptions integer not null default 0,
    max_interruptions integer not null,
    on_ambiguous text not null,
    accepted_at timestamp with time zone not null,
    available_at timestamp with time zone not null,
    deadline timestamp with time zone not null,
    finished_at timestamp with time zone,
    failure_class text,
    failure_message text,
    failure_attempt integer,
    reply_id uuid,
    reserved_picousd bigint,
    reserved_on date,
    constraint reply_tasks_check CHECK ((attempts <= max_attempts)),
    constraint reply_tasks_check1 CHECK (((finished_at IS NOT NULL) = (status = ANY (ARRAY['completed'::text, 'failed'::text, 'cancelled'::text])))),
    constraint reply_tasks_kind_check CHECK ((kind = ANY (ARRAY['reply'::text, 'regenerate'::text]))),
    constraint reply_tasks_on_ambiguous_check CHECK ((on_ambiguous = ANY (ARRAY['retry'::text, 'stop'::text]))),
    constraint reply_tasks_pkey PRIMARY KEY (id),
    constraint reply_tasks_status_check CHECK ((status = ANY (ARRAY['queued'::text, 'running'::text, 'completed'::text, 'failed'::text, 'cancelled'::text])))
) with (fillfactor=45, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_cost_delay=1);
CREATE INDEX reply_tasks_by_conversation ON public.reply_tasks USING btree (workspace, conversation, id);
CREATE INDEX reply_tasks_by_workspace ON public.reply_tasks USING btree (workspace, id);
CREATE INDEX reply_tasks_regenerated ON public.reply_tasks USING btree (message_id) WHERE (kind = 'regenerate'::text);
CREATE INDEX reply_tasks_unfinished ON public.reply_tasks USING btree (id) WHERE (finished_at IS NULL);
CREATE INDEX reply_tasks_unfinished_of ON public.reply_tasks USING btree (workspace) WHERE (finished_at IS NULL);

create table spend_changes (
    task_id uuid not null,
    input_tokens bigint,
    cached_input_tokens bigint,
    output_tokens bigint,
    reasoning_tokens bigint,
    picousd bigint,
    day date not null,
    sign smallint not null,
    unknown boolean not null,
    unpriced boolean not null,
    not_accepted boolean not null,
    workspace text not null,
    model text not null
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0);
CREATE INDEX spend_changes_by_workspace ON public.spend_changes USING btree (workspace, task_id);

create table spend_conversations (
    workspace text not null,
    conversation text not null,
    document_id text not null,
    day date not null,
    attempts bigint not null,
    unknown_attempts bigint not null,
    unpriced_attempts bigint not null,
    input_tokens numeric not null,
    cached_input_tokens numeric not null,
    output_tokens numeric not null,
    reasoning_tokens numeric not null,
    picousd numeric not null,
    not_accepted bigint not null,
    not_accepted_picousd numeric not null,
    replays bigint not null,
    saved_picousd numeric not null,
    constraint spend_conversations_pkey PRIMARY KEY (workspace, conversation, document_id, day)
) with (fillfactor=80, autovacuum_vacuum_scale_factor=0.02);
CREATE INDEX spend_conversations_by_document ON public.spend_conversations USING btree (workspace, document_id, conversation, day) WHERE (document_id <> ''::text);

create table spend_days (
    workspace text not null,
    day date not null,
    model text not null,
    attempts bigint not null,
    unknown_attempts bigint not null,
    unpriced_attempts bigint not null,
    input_tokens numeric not null,
    cached_input_tokens numeric not null,
    output_tokens numeric not null,
    reasoning_tokens numeric not null,
    picousd numeric not null,
    not_accepted bigint not null,
    not_accepted_picousd numeric not null,
    replays bigint not null,
    saved_picousd numeric not null,
    constraint spend_days_pkey PRIMARY KEY (workspace, day, model)
) with (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000, autovacuum_vacuum_cost_delay=0);

create table spend_documents (
    workspace text not null,
    document_id text not null,
    document_version text not null,
    day date not null,
    model text not null,
    attempts bigint not null,
    unknown_attempts bigint not null,
    unpriced_attempts bigint not null,
    input_tokens numeric not null,
    cached_input_tokens numeric not null,
    output_tokens numeric not null,
    reasoning_tokens numeric not null,
    picousd numeric not null,
    not_accepted bigint not null,
    not_accepted_picousd numeric not null,
    replays bigint not null,
    saved_picousd numeric not null,
    constraint spend_documents_pkey PRIMARY KEY (workspace, document_id, document_version, day, model)
) with (fillfactor=80, autovacuum_vacuum_scale_factor=0.02);

create table submissions (
    workspace text not null,
    operation text not null,
    key text not null,
    fingerprint bytea not null,
    task_id uuid not null,
    created_at timestamp with time zone not null,
    expires_at timestamp with time zone not null,
    replays bigint not null default 0,
    constraint submissions_pkey PRIMARY KEY (workspace, operation, key)
);
CREATE INDEX submissions_by_expiry ON public.submissions USING btree (expires_at);

create table task_requests (
    task_id uuid not null,
    model text not null,
    system text not null,
    prompt_template text not null,
    document_id text not null,
    document_version text not null,
    temperature double precision,
    max_output_tokens integer,
    metadata jsonb not null,
    trace_parent text not null,
    prompt_template_version text not null default ''::text,
    chat_messages text,
    chat_params text,
    key_expires_at timestamp with time zone,
    constraint task_requests_pkey PRIMARY KEY (task_id)
);
