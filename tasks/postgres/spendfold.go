package postgres

import "context"

// What a change comes to, under the names of its task. The task is looked up for each by itself: a join might be planned
// as one over all tasks there are.
const (
	spendOfChange = `
    select c.workspace, c.day, spend_name(c.model) collate "C" as model,
        spend_name(coalesce(r.document_id, '')) collate "C" as document_id,
        spend_name(coalesce(r.document_version, '')) collate "C" as document_version,
        coalesce(t.conversation, '') collate "C" as conversation,
        c.sign::bigint as attempts, c.sign * c.unknown::int::bigint as unknown_attempts, c.sign * c.unpriced::int::bigint as unpriced_attempts,
        c.sign * greatest(coalesce(c.input_tokens, 0), -9000000000000000000) as input_tokens,
        c.sign * greatest(coalesce(c.cached_input_tokens, 0), -9000000000000000000) as cached_input_tokens,
        c.sign * greatest(coalesce(c.output_tokens, 0), -9000000000000000000) as output_tokens,
        c.sign * greatest(coalesce(c.reasoning_tokens, 0), -9000000000000000000) as reasoning_tokens,
        c.sign * greatest(coalesce(c.picousd, 0), -9000000000000000000) as picousd, c.sign * c.not_accepted::int::bigint as not_accepted,
        c.sign * c.not_accepted::int * greatest(coalesce(c.picousd, 0), -9000000000000000000) as not_accepted_picousd,
        (c.sign = 0)::int::bigint as replays, (c.sign = 0)::int * greatest(coalesce(c.picousd, 0), -9000000000000000000) as saved_picousd`
	spendOfTask = ` c
    left join lateral (select r.document_id, r.document_version from task_requests r where r.task_id = c.task_id limit 1) r on true
    left join lateral (select t.conversation from reply_tasks t where t.id = c.task_id limit 1) t on true`
)

const (
	foldColumns = `attempts, unknown_attempts, unpriced_attempts, input_tokens, cached_input_tokens, output_tokens,
        reasoning_tokens, picousd, not_accepted, not_accepted_picousd, replays, saved_picousd`
	foldSums = `sum(attempts), sum(unknown_attempts), sum(unpriced_attempts), sum(input_tokens), sum(cached_input_tokens), sum(output_tokens),
        sum(reasoning_tokens), sum(picousd), sum(not_accepted), sum(not_accepted_picousd), sum(replays), sum(saved_picousd)`
	foldUpdate = ` do update set
        attempts = s.attempts + excluded.attempts, unknown_attempts = s.unknown_attempts + excluded.unknown_attempts,
        unpriced_attempts = s.unpriced_attempts + excluded.unpriced_attempts, input_tokens = s.input_tokens + excluded.input_tokens,
        cached_input_tokens = s.cached_input_tokens + excluded.cached_input_tokens, output_tokens = s.output_tokens + excluded.output_tokens,
        reasoning_tokens = s.reasoning_tokens + excluded.reasoning_tokens, picousd = s.picousd + excluded.picousd,
        not_accepted = s.not_accepted + excluded.not_accepted, not_accepted_picousd = s.not_accepted_picousd + excluded.not_accepted_picousd,
        replays = s.replays + excluded.replays, saved_picousd = s.saved_picousd + excluded.saved_picousd`
)

// One folds at a time, since two would wait for each other at the sums in whatever order they come to them.
const foldSpendSQL = `
with turn as materialized (
    select pg_try_advisory_xact_lock($2::bigint) as mine
), taken as (
    delete from spend_changes where ctid = any(array(
        select ctid from spend_changes where (select mine from turn) order by workspace, task_id limit $1))
    returning *
), named as materialized (` + spendOfChange + ` from taken` + spendOfTask + `
), days as (
    insert into spend_days as s (workspace, day, model, ` + foldColumns + `)
    select workspace, day, model, ` + foldSums + ` from named group by workspace, day, model
    on conflict (workspace, day, model)` + foldUpdate + `
), documents as (
    insert into spend_documents as s (workspace, document_id, document_version, day, model, ` + foldColumns + `)
    select workspace, document_id, document_version, day, model, ` + foldSums + ` from named
    group by workspace, document_id, document_version, day, model
    on conflict (workspace, document_id, document_version, day, model)` + foldUpdate + `
), conversations as (
    insert into spend_conversations as s (workspace, conversation, document_id, day, ` + foldColumns + `)
    select workspace, conversation, document_id, day, ` + foldSums + ` from named group by workspace, conversation, document_id, day
    on conflict (workspace, conversation, document_id, day)` + foldUpdate + `
)
select count(*) from named`

const foldSpendLock = 0x5370656e64 // of Postgres' advisory locks

// FoldSpend implements tasks.Spending.
func (s *Store) FoldSpend(ctx context.Context, limit int) (folded int, err error) {
	err = repeat(ctx, func() error {
		return s.pool.QueryRow(ctx, foldSpendSQL, limit, int64(foldSpendLock)).Scan(&folded)
	})
	return folded, s.wrap(ctx, "fold spend", err)
}
