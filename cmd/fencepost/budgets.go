package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
)

func newBudgets(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "budgets",
		Short: "Cap what workspaces may spend in a day",
		Long: `Cap what a workspace may spend in a day (UTC). A new message is refused (429, budget_exhausted) when what was spent and
reserved today leaves less than it may cost at most; a running task is never stopped for money, so that only its retries
can exceed the cap. Where a model has no price, a workspace with a budget cannot use it.`,
	}, newBudgetsSet(a), newBudgetsList(a), newBudgetsRemove(a))
}

// budget is the JSON form. Amounts are exact decimals in USD.
type budget struct {
	Workspace string `json:"workspace"`
	PerDay    string `json:"per_day"`
	Day       string `json:"day"`
	Spent     string `json:"spent"`
	Reserved  string `json:"reserved"`
	Left      string `json:"left"`
	UpdatedAt string `json:"updated_at"`
}

func showBudget(b tasks.Budgeted) budget {
	return budget{
		Workspace: b.Workspace, PerDay: tasks.Dollars(b.PerDay), Day: b.Day.Format("2006-01-02"),
		Spent: tasks.Dollars(b.Spent), Reserved: tasks.Dollars(b.Reserved), Left: tasks.Dollars(b.Left()),
		UpdatedAt: cli.Time(b.UpdatedAt),
	}
}

var budgetColumns = []cli.Column[budget]{
	{Title: "WORKSPACE", Text: func(b budget) string { return b.Workspace }},
	{Title: "PER DAY", Text: func(b budget) string { return b.PerDay }},
	{Title: "DAY", Text: func(b budget) string { return b.Day }},
	{Title: "SPENT", Text: func(b budget) string { return b.Spent }},
	{Title: "RESERVED", Text: func(b budget) string { return b.Reserved }},
	{Title: "LEFT", Text: func(b budget) string { return b.Left }},
	{Title: "UPDATED", Wide: true, Text: func(b budget) string { return b.UpdatedAt }},
}

func newBudgetsSet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Set the cap of a workspace, or change it",
		Long: `Set what a workspace may spend in a day, from now on and for today, too. What was spent before the workspace first had
a budget does not count.`,
		Example: "  fencepost budgets set --workspace acme --per-day 10.00",
		Args:    arguments(),
	}
	var postgres postgresSettings
	settingsFor(cmd, postgres.flags)
	workspace := cmd.Flags().String("workspace", "", "`workspace` to cap (required)")
	perDay := cmd.Flags().String("per-day", "", "`dollars` it may spend in a day, like 10.00 (required)")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		const usage = "fencepost budgets set --workspace NAME --per-day DOLLARS"
		if *workspace == "" {
			return cli.Usage(usage, "--workspace is missing")
		}
		if *perDay == "" {
			return cli.Usage(usage, "--per-day is missing")
		}
		pico, err := tasks.ParseDollars(*perDay)
		if err != nil {
			return cli.Usage(usage, "--per-day: %w", err)
		}
		if err := tasks.CheckBudget(*workspace, &pico); err != nil {
			return cli.Usage("", "--workspace: at most %d bytes of text", tasks.MaxName)
		}
		store, err := postgres.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		if err := store.SetBudget(cmd.Context(), *workspace, &pico); err != nil {
			return storeError(err)
		}
		set, _, err := findBudget(cmd.Context(), store, *workspace)
		if err != nil {
			return err
		}
		return cli.One(a.Out, *output, showBudget(set), budgetColumns)
	}
	return cmd
}

func newBudgetsList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the caps, with what was spent and reserved today",
		Example: "  fencepost budgets list -o json",
		Args:    arguments(),
	}
	var postgres postgresSettings
	settingsFor(cmd, postgres.flags)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		store, err := postgres.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		budgets, err := store.Budgets(cmd.Context())
		if err != nil {
			return storeError(err)
		}
		list := make([]budget, len(budgets))
		for i, b := range budgets {
			list[i] = showBudget(b)
		}
		return cli.List(a.Out, *output, "budgets", list, budgetColumns)
	}
	return cmd
}

func newBudgetsRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove",
		Short: "Remove the cap of a workspace",
		Long: `Remove the cap of a workspace. What it has spent and reserved today is kept: it counts again if the workspace is
capped again on the same day.`,
		Example: "  fencepost budgets remove --workspace acme",
		Args:    arguments(),
	}
	var postgres postgresSettings
	settingsFor(cmd, postgres.flags)
	workspace := cmd.Flags().String("workspace", "", "`workspace` whose cap goes (required)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		if *workspace == "" {
			return cli.Usage("fencepost budgets remove --workspace NAME", "--workspace is missing")
		}
		store, err := postgres.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		_, capped, err := findBudget(cmd.Context(), store, *workspace)
		if err != nil {
			return err
		}
		if !capped {
			return cli.Fail("fencepost budgets list", "workspace %q has no budget", *workspace)
		}
		if err := store.SetBudget(cmd.Context(), *workspace, nil); err != nil {
			return storeError(err)
		}
		a.note("workspace %s has no budget any more", *workspace)
		return nil
	}
	return cmd
}

func findBudget(ctx context.Context, store *postgres.Store, workspace string) (tasks.Budgeted, bool, error) {
	budgets, err := store.Budgets(ctx)
	if err != nil {
		return tasks.Budgeted{}, false, storeError(err)
	}
	at := slices.IndexFunc(budgets, func(b tasks.Budgeted) bool { return b.Workspace == workspace })
	if at < 0 {
		return tasks.Budgeted{}, false, nil
	}
	return budgets[at], true, nil
}
