package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
)

// Ids are made in the order of time, so the latest are at the end of the primary keys: no index of its own is needed.
const (
	recentTasksSQL = `
select status, count(*) from (select status from reply_tasks order by id desc limit $1) t group by status`

	// An attempt says by its class what it failed with. One without an end is under way, or was given up.
	recentAttemptsSQL = `
select case when outcome = 'failed' then coalesce(nullif(failure_class, ''), 'failed')
    when outcome = 'unknown' and ended_at is null then 'running' else outcome end as word, count(*)
from (select outcome, failure_class, ended_at from attempts order by task_id desc, assignment_version desc limit $1) a
group by word`

	recentFailuresSQL = `
select id, workspace, coalesce(failure_class, ''), coalesce(failure_message, ''), coalesce(failure_attempt, 0),
    greatest(extract(epoch from statement_timestamp() - finished_at), 0)::float8
from (select * from reply_tasks order by id desc limit $1) t
where status = 'failed' order by id desc limit $2`
)

// Recent looks at the latest tasks and attempts, as many as looked, and lists as many as failures of the tasks that failed.
func (s *Store) Recent(ctx context.Context, looked, failures int) (tasks.Recent, error) {
	out := tasks.Recent{ByStatus: make(map[tasks.Status]int), ByOutcome: make(map[string]int)}
	err := s.recent(ctx, looked, failures, &out)
	return out, s.wrap(ctx, "read recent tasks", err)
}

func (s *Store) recent(ctx context.Context, looked, failures int, out *tasks.Recent) error {
	var status tasks.Status
	var outcome string
	var n int
	rows, err := s.pool.Query(ctx, recentTasksSQL, looked)
	if err != nil {
		return err
	}
	if _, err := pgx.ForEachRow(rows, []any{&status, &n}, func() error {
		out.ByStatus[status] = n
		out.Tasks += n
		return nil
	}); err != nil {
		return err
	}
	if rows, err = s.pool.Query(ctx, recentAttemptsSQL, looked); err != nil {
		return err
	}
	if _, err := pgx.ForEachRow(rows, []any{&outcome, &n}, func() error {
		out.ByOutcome[outcome] = n
		out.Attempts += n
		return nil
	}); err != nil {
		return err
	}
	if rows, err = s.pool.Query(ctx, recentFailuresSQL, looked, failures); err != nil {
		return err
	}
	var f tasks.RecentFailure
	var id uuid.UUID
	var age float64
	_, err = pgx.ForEachRow(rows, []any{&id, &f.Workspace, &f.Class, &f.Message, &f.Attempt, &age}, func() error {
		f.TaskID, f.Age = id, time.Duration(age*float64(time.Second))
		out.Failures = append(out.Failures, f)
		return nil
	})
	return err
}

// Of each workspace the sums of the day, found by the next one in the order of the index, and what is not folded yet, up
// to a bound: where folding has stood still, an answer that waits for all of it would be none.
const spentTodaySQL = `
with recursive today as (
    select (statement_timestamp() at time zone 'utc')::date as day
), w as (
    (select workspace from spend_days order by workspace limit 1)
    union all
    select (select d.workspace from spend_days d where d.workspace > w.workspace order by d.workspace limit 1) from w where w.workspace is not null
), fresh as materialized (
    select * from spend_changes order by workspace, task_id limit $1
), s as (
    select d.* from today, w, lateral (
        select workspace, model, ` + foldColumns + ` from spend_days d where d.workspace = w.workspace and d.day = today.day offset 0) d
    union all
    select workspace, model, ` + foldColumns + ` from (` + spendOfChange + ` from fresh c, (select null::text as document_id, null::text as document_version) r,
        (select null::text as conversation) t where c.day = (select day from today)) f
)
select (select day from today), (select count(*) from fresh) < $1, grouping(s.workspace) = 0, grouping(s.model) = 0,
    coalesce(s.workspace, ''), coalesce(s.model, ''),` + spendSums + `
from s group by grouping sets ((), (s.workspace), (s.model))`

// maxFresh changes that are not folded yet are counted. A dispatcher folds more than that in a second.
const maxFresh = 5000

// SpentToday sums what today has come to, in all workspaces.
func (s *Store) SpentToday(ctx context.Context) (tasks.SpentToday, error) {
	out := tasks.SpentToday{ByWorkspace: make(map[string]tasks.Spend), ByModel: make(map[string]tasks.Spend)}
	rows, err := s.pool.Query(ctx, spentTodaySQL, maxFresh)
	if err == nil {
		var ofWorkspace, ofModel bool
		var name, model string
		var x tasks.Spend
		_, err = pgx.ForEachRow(rows, []any{&out.Day, &out.Complete, &ofWorkspace, &ofModel, &name, &model, &x.Attempts, &x.UnknownAttempts, &x.UnpricedAttempts,
			&x.InputTokens, &x.CachedInputTokens, &x.OutputTokens, &x.ReasoningTokens, &x.PicoUSD,
			&x.NotAccepted.Attempts, &x.NotAccepted.PicoUSD, &x.Saved.Replays, &x.Saved.PicoUSD}, func() error {
			switch {
			case ofWorkspace && !x.Zero():
				out.ByWorkspace[name] = x
			case ofModel && !x.Zero():
				out.ByModel[model] = x
			case !ofWorkspace && !ofModel:
				out.Total = x
			}
			return nil
		})
	}
	return out, s.wrap(ctx, "read what was spent today", err)
}
