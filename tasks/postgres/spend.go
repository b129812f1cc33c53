package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

var _ tasks.Spending = (*Store)(nil)

// A statement reads what is not folded yet (fresh), the sums that its page is of (source), and those that its total is of
// (whole). A key is two texts, the second one of documents alone. The page begins at ($4, $5), or behind it where $6 says so.
const (
	spendMeasures = `s.attempts, s.unknown_attempts, s.unpriced_attempts, s.input_tokens, s.cached_input_tokens, s.output_tokens,
        s.reasoning_tokens, s.picousd, s.not_accepted, s.not_accepted_picousd, s.replays, s.saved_picousd`
	spendPeriod = ` where s.workspace = $1::text and s.day >= $2::date and s.day < $3::date`
	spendOfOne  = ` and s.document_id = $8::text`

	keyDay          = `to_char(s.day, 'YYYY-MM-DD') collate "C" as k1, '' collate "C" as k2, `
	keyModel        = `s.model as k1, '' collate "C" as k2, `
	keyDocument     = `s.document_id as k1, s.document_version as k2, `
	keyConversation = `s.conversation as k1, '' collate "C" as k2, `

	spendFresh = `
with fresh as materialized (
    select `
	spendUnfolded = spendMeasures + ` from (` + spendOfChange + ` from spend_changes` + spendOfTask + ` where c.workspace = $1::text) s` + spendPeriod
	spendSource   = `
), source as not materialized (
    select `
	spendWhole = `
), whole as not materialized (
    select ` + spendMeasures + ` from `

	spendSums = `
    least(greatest(coalesce(sum(s.attempts), 0), -9000000000000000000), 9000000000000000000)::bigint,
    least(greatest(coalesce(sum(s.unknown_attempts), 0), -9000000000000000000), 9000000000000000000)::bigint,
    least(greatest(coalesce(sum(s.unpriced_attempts), 0), -9000000000000000000), 9000000000000000000)::bigint,
    least(greatest(coalesce(sum(s.input_tokens), 0), -9000000000000000000), 9000000000000000000)::bigint,
    least(greatest(coalesce(sum(s.cached_input_tokens), 0), -9000000000000000000), 9000000000000000000)::bigint,
    least(greatest(coalesce(sum(s.output_tokens), 0), -9000000000000000000), 9000000000000000000)::bigint,
    least(greatest(coalesce(sum(s.reasoning_tokens), 0), -9000000000000000000), 9000000000000000000)::bigint,
    least(greatest(coalesce(sum(s.picousd), 0), -9000000000000000000), 9000000000000000000)::bigint,
    least(greatest(coalesce(sum(s.not_accepted), 0), -9000000000000000000), 9000000000000000000)::bigint,
    least(greatest(coalesce(sum(s.not_accepted_picousd), 0), -9000000000000000000), 9000000000000000000)::bigint,
    least(greatest(coalesce(sum(s.replays), 0), -9000000000000000000), 9000000000000000000)::bigint,
    least(greatest(coalesce(sum(s.saved_picousd), 0), -9000000000000000000), 9000000000000000000)::bigint`
	spendBegin = ` where (s.k1, s.k2) >= ($4::text collate "C", $5::text collate "C")
            and not ($6::boolean and s.k1 = $4::text collate "C" and s.k2 = $5::text collate "C")`

	// Where there are few sums, a page is cut from all of them. A sum of nothing is what corrections have left of a key.
	spendFewPage = `
)
(select false, s.k1, s.k2,` + spendSums + `
from (select s.* from source s union all select s.* from fresh s) s` + spendBegin + `
group by s.k1, s.k2 having sum(s.attempts) <> 0 or sum(s.replays) <> 0 order by s.k1, s.k2 limit $7)
union all
select true, '', '',` + spendSums + ` from (select ` + spendMeasures + ` from source s union all select ` + spendMeasures + ` from fresh s) s
order by 1, 2, 3`

	// Where there are many, the keys of the page come first, from the order of an index, and then the sums of each.
	spendManyPage = `
), keys as materialized (
    select k.k1, k.k2 from (
        (select distinct s.k1, s.k2 from source s` + spendBegin + ` order by s.k1, s.k2 limit $7)
        union
        (select distinct s.k1, s.k2 from fresh s` + spendBegin + ` order by s.k1, s.k2 limit $7)
    ) k order by k.k1, k.k2 limit $7
)
select false, s.k1, s.k2,` + spendSums + `
from (
    select s.* from keys k cross join lateral (select s.* from source s where s.k1 = k.k1 and s.k2 = k.k2 offset 0) s
    union all
    select s.* from keys k join fresh s on s.k1 = k.k1 and s.k2 = k.k2
) s group by s.k1, s.k2
union all
select true, '', '',` + spendSums + ` from (select s.* from whole s union all select ` + spendMeasures + ` from fresh s) s
order by 1, 2, 3`
)

const (
	spendDaysSQL = spendFresh + keyDay + spendUnfolded +
		spendSource + keyDay + spendMeasures + ` from spend_days s` + spendPeriod + spendFewPage
	spendModelsSQL = spendFresh + keyModel + spendUnfolded +
		spendSource + keyModel + spendMeasures + ` from spend_days s` + spendPeriod + spendFewPage
	spendDocumentsSQL = spendFresh + keyDocument + spendUnfolded +
		spendSource + keyDocument + spendMeasures + ` from spend_documents s` + spendPeriod +
		spendWhole + `spend_days s` + spendPeriod + spendManyPage
	spendConversationsSQL = spendFresh + keyConversation + spendUnfolded +
		spendSource + keyConversation + spendMeasures + ` from spend_conversations s` + spendPeriod +
		spendWhole + `spend_days s` + spendPeriod + spendManyPage

	spendDaysOfSQL = spendFresh + keyDay + spendUnfolded + spendOfOne +
		spendSource + keyDay + spendMeasures + ` from spend_documents s` + spendPeriod + spendOfOne + spendFewPage
	spendModelsOfSQL = spendFresh + keyModel + spendUnfolded + spendOfOne +
		spendSource + keyModel + spendMeasures + ` from spend_documents s` + spendPeriod + spendOfOne + spendFewPage
	spendVersionsOfSQL = spendFresh + keyDocument + spendUnfolded + spendOfOne +
		spendSource + keyDocument + spendMeasures + ` from spend_documents s` + spendPeriod + spendOfOne + spendFewPage
	spendConversationsOfSQL = spendFresh + keyConversation + spendUnfolded + spendOfOne +
		spendSource + keyConversation + spendMeasures + ` from spend_conversations s` + spendPeriod + spendOfOne + ` and s.document_id <> ''` +
		spendWhole + `spend_documents s` + spendPeriod + spendOfOne + spendManyPage
)

// spendQueries are the statements by what the sums are made by: of all documents, and of one.
var spendQueries = map[tasks.SpendBy][2]string{
	tasks.SpendByDay:          {spendDaysSQL, spendDaysOfSQL},
	tasks.SpendByModel:        {spendModelsSQL, spendModelsOfSQL},
	tasks.SpendByDocument:     {spendDocumentsSQL, spendVersionsOfSQL},
	tasks.SpendByConversation: {spendConversationsSQL, spendConversationsOfSQL},
}

var firstDay, lastDay = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Spend implements tasks.Spending.
func (s *Store) Spend(ctx context.Context, q tasks.SpendQuery) (tasks.Spent, error) {
	var out tasks.Spent
	if err := q.Check(); err != nil {
		return out, err
	}
	if q.From.IsZero() {
		q.From = firstDay
	}
	if q.To.IsZero() {
		q.To = lastDay
	}
	sql, limit := spendQueries[q.By][0], page(q.Limit)
	k1, k2 := spendKeyTexts(q.By, q.After)
	args := []any{workspace(q.Workspace), q.From, q.To, k1, k2, q.After != nil, limit + 1}
	if q.Document != "" {
		sql, args = spendQueries[q.By][1], append(args, tasks.SpendName(tasks.Clean(q.Document)))
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return out, s.wrap(ctx, "read spend", err)
	}
	var whole bool
	var x tasks.Spend
	var last tasks.SpendKey
	looked := 0
	_, err = pgx.ForEachRow(rows, []any{&whole, &k1, &k2, &x.Attempts, &x.UnknownAttempts, &x.UnpricedAttempts,
		&x.InputTokens, &x.CachedInputTokens, &x.OutputTokens, &x.ReasoningTokens, &x.PicoUSD,
		&x.NotAccepted.Attempts, &x.NotAccepted.PicoUSD, &x.Saved.Replays, &x.Saved.PicoUSD}, func() error {
		if whole {
			out.Total = x
			return nil
		}
		if looked++; looked > limit {
			next := last
			out.Next = &next
			return nil
		}
		var err error
		if last, err = spendKey(q.By, k1, k2); err == nil && !x.Zero() {
			out.Rows = append(out.Rows, tasks.SpendRow{SpendKey: last, Spend: x})
		}
		return err
	})
	if err != nil {
		return tasks.Spent{}, s.wrap(ctx, "read spend", err)
	}
	return out, nil
}

// spendKeyTexts are the texts of a key, which are cleaned: what cannot be stored is nowhere.
func spendKeyTexts(by tasks.SpendBy, k *tasks.SpendKey) (k1, k2 string) {
	if k == nil {
		return "", ""
	}
	switch by {
	case tasks.SpendByDay:
		k1 = k.Day.UTC().Format(time.DateOnly)
	case tasks.SpendByModel:
		k1 = k.Model
	case tasks.SpendByConversation:
		k1 = k.Conversation
	default:
		k1, k2 = k.Document.ID, k.Document.Version
	}
	return tasks.Clean(k1), tasks.Clean(k2)
}

func spendKey(by tasks.SpendBy, k1, k2 string) (k tasks.SpendKey, err error) {
	switch by {
	case tasks.SpendByDay:
		k.Day, err = time.Parse(time.DateOnly, k1)
	case tasks.SpendByModel:
		k.Model = k1
	case tasks.SpendByConversation:
		k.Conversation = k1
	default:
		k.Document = tasks.Document{ID: k1, Version: k2}
	}
	return k, err
}

// The next one after each in the order of an index.
const spendersSQL = `
with recursive w as (
    (select workspace from spend_days order by workspace limit 1)
    union all
    select (select d.workspace from spend_days d where d.workspace > w.workspace order by d.workspace limit 1) from w where w.workspace is not null
), c as (
    (select workspace from spend_changes order by workspace limit 1)
    union all
    select (select d.workspace from spend_changes d where d.workspace > c.workspace order by d.workspace limit 1) from c where c.workspace is not null
)
select workspace from w where workspace is not null union select workspace from c where workspace is not null order by 1`

// Spenders lists the workspaces that have spent or saved anything.
func (s *Store) Spenders(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, spendersSQL)
	if err != nil {
		return nil, s.wrap(ctx, "list spenders", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return names, s.wrap(ctx, "list spenders", err)
}
