package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/httpapi"
	"github.com/fencepost/fencepost/tasks/postgres"
)

const spendPage = 1000 // sums that one query reads

// spendSums is the command itself: sums over the ledger.
type spendSums struct {
	query     tasks.SpendQuery
	workspace string
	limit     int
}

// spendRow has the JSON that the API answers, with the workspace.
type spendRow struct {
	by        tasks.SpendBy
	workspace string
	tasks.SpendRow
}

// MarshalJSON is the API's form.
func (r spendRow) MarshalJSON() ([]byte, error) {
	row, err := httpapi.EncodeSpend(r.by, r.SpendRow)
	if err != nil {
		return nil, err
	}
	name, err := json.Marshal(r.workspace)
	if err != nil {
		return nil, err
	}
	return append(append([]byte(`{"workspace":`), name...), append([]byte(","), row[1:]...)...), nil
}

// spendReport is the JSON form.
type spendReport struct {
	By        tasks.SpendBy   `json:"by"`
	Currency  string          `json:"currency"`
	Spend     []spendRow      `json:"spend"`
	Total     json.RawMessage `json:"total"`
	Truncated bool            `json:"truncated,omitempty"` // there are more sums than --limit
}

func (s *spendSums) command(a *app, cmd *cobra.Command) {
	var store postgresSettings
	settingsFor(cmd, store.flags)
	var words []string
	for _, by := range tasks.SpendBys {
		words = append(words, string(by))
	}
	by := cli.NewChoice(words...)
	_ = by.Set(string(tasks.SpendByDay))
	cmd.Flags().Var(by, "by", "what the sums are made by")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&s.query.Document, "document", "", "only of the document with this `id`")
	cmd.Flags().StringVar(&s.workspace, "workspace", "", "only of this `workspace` (default: of each)")
	cmd.Flags().Var((*moment)(&s.query.From), "from", "begin with this `day` in UTC, like 2026-11-30")
	cmd.Flags().Var((*moment)(&s.query.To), "to", "end before this `day`")
	cmd.Flags().IntVar(&s.limit, "limit", spendPage, "most `sums` to show")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		if s.query.By = tasks.SpendBy(by.String()); s.query.Check() != nil {
			return cli.Usage("", "--from and --to have to be days")
		}
		if s.limit < 1 {
			return cli.Usage("", "--limit: %d is less than 1", s.limit)
		}
		db, err := store.open(cmd.Context())
		if err != nil {
			return err
		}
		defer db.Close()
		rows, total, more, err := s.read(cmd.Context(), db)
		if err != nil {
			return storeError(err)
		}
		return a.showSpend(*output, s.query.By, rows, total, more)
	}
}

// read collects the sums of the workspaces, a query for each page of each.
func (s *spendSums) read(ctx context.Context, db *postgres.Store) (rows []spendRow, total tasks.Spend, more bool, err error) {
	names := []string{s.workspace}
	if s.workspace == "" {
		if names, err = db.Spenders(ctx); err != nil {
			return nil, total, false, err
		}
	}
	for _, name := range names {
		q := s.query
		q.Workspace = name
		for first := true; ; first = false {
			q.Limit = max(1, min(spendPage, s.limit-len(rows)))
			page, err := db.Spend(ctx, q)
			if err != nil {
				return nil, total, false, err
			}
			if first {
				total = total.Add(page.Total)
			}
			for _, r := range page.Rows {
				if len(rows) == s.limit {
					more = true
					break
				}
				rows = append(rows, spendRow{q.By, name, r})
			}
			if q.After = page.Next; page.Next == nil || more || len(rows) == s.limit {
				more = more || page.Next != nil
				break
			}
		}
	}
	return rows, total, more, nil
}

func spendColumns(by tasks.SpendBy) []cli.Column[spendRow] {
	key := func(title string, text func(spendRow) string) cli.Column[spendRow] {
		return cli.Column[spendRow]{Title: title, Text: text}
	}
	columns := []cli.Column[spendRow]{key("WORKSPACE", func(r spendRow) string { return r.workspace })}
	switch by {
	case tasks.SpendByModel:
		columns = append(columns, key("MODEL", func(r spendRow) string { return r.Model }))
	case tasks.SpendByConversation:
		columns = append(columns, key("CONVERSATION", func(r spendRow) string { return r.Conversation }))
	case tasks.SpendByDay:
		columns = append(columns, key("DAY", func(r spendRow) string { return r.Day.Format(time.DateOnly) }))
	default:
		columns = append(columns, key("DOCUMENT", func(r spendRow) string { return r.Document.ID }),
			key("VERSION", func(r spendRow) string { return r.Document.Version }))
	}
	number := func(title string, wide bool, n func(tasks.Spend) int64) cli.Column[spendRow] {
		return cli.Column[spendRow]{Title: title, Wide: wide, Text: func(r spendRow) string { return strconv.FormatInt(n(r.Spend), 10) }}
	}
	return append(columns,
		number("ATTEMPTS", false, func(s tasks.Spend) int64 { return s.Attempts }),
		number("INPUT", false, func(s tasks.Spend) int64 { return s.InputTokens }),
		number("CACHED", true, func(s tasks.Spend) int64 { return s.CachedInputTokens }),
		number("OUTPUT", false, func(s tasks.Spend) int64 { return s.OutputTokens }),
		number("REASONING", true, func(s tasks.Spend) int64 { return s.ReasoningTokens }),
		key("USD", func(r spendRow) string { return spendAmount(r.Spend) }),
		number("UNKNOWN", false, func(s tasks.Spend) int64 { return s.UnknownAttempts }),
		number("UNPRICED", false, func(s tasks.Spend) int64 { return s.UnpricedAttempts }),
		number("NOT ACCEPTED", true, func(s tasks.Spend) int64 { return s.NotAccepted.Attempts }),
		key("NOT ACCEPTED USD", func(r spendRow) string { return tasks.Dollars(r.NotAccepted.PicoUSD) }),
		number("REPLAYS", false, func(s tasks.Spend) int64 { return s.Saved.Replays }),
		key("SAVED USD", func(r spendRow) string { return tasks.Dollars(r.Saved.PicoUSD) }))
}

// spendAmount is empty where nothing is known.
func spendAmount(s tasks.Spend) string {
	if !s.Known() {
		return ""
	}
	return tasks.Dollars(s.PicoUSD)
}

// showSpend writes one document, or the sums as a list and the total for a person.
func (a *app) showSpend(f cli.Format, by tasks.SpendBy, rows []spendRow, total tasks.Spend, more bool) error {
	switch f {
	case cli.JSON, cli.YAML:
		sum, err := httpapi.EncodeSpendTotal(total)
		if err != nil {
			return err
		}
		if rows == nil {
			rows = []spendRow{}
		}
		return cli.One(a.Out, f, spendReport{by, "USD", rows, sum, more}, nil)
	}
	if err := cli.List(a.Out, f, "spend", rows, spendColumns(by)); err != nil {
		return err
	}
	if f != cli.Table && f != cli.Wide {
		return nil
	}
	amount := spendAmount(total)
	if amount == "" {
		amount = "unknown"
	}
	a.note("in all: %d attempts, USD %s; %d unknown, %d without a price; USD %s for answers that were not accepted; %d replays saved USD %s",
		total.Attempts, amount, total.UnknownAttempts, total.UnpricedAttempts, tasks.Dollars(total.NotAccepted.PicoUSD),
		total.Saved.Replays, tasks.Dollars(total.Saved.PicoUSD))
	if more {
		a.note("there are more; see --limit")
	}
	return nil
}
