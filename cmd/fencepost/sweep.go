package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/tasks"
)

// minTaskRetention leaves time to look at what became of a task.
const minTaskRetention = 24 * time.Hour

// sweepSettings are what of the past is kept, for the verb and for the dispatcher role.
type sweepSettings struct{ taskRetention time.Duration }

func (s *sweepSettings) flags(f *pflag.FlagSet) {
	f.DurationVar(&s.taskRetention, "task-retention", 0, "for how long finished tasks are kept, with their messages, replies and ledger; 0: for ever")
}

func (s *sweepSettings) check() error {
	if s.taskRetention != 0 && s.taskRetention < minTaskRetention {
		return cli.Usage("0 keeps tasks for ever", "--task-retention: %s is too short, the least is %s", s.taskRetention, minTaskRetention)
	}
	return nil
}

const (
	sweepBatch  = 1000
	sweepSample = 100_000 // a dry run counts no further
)

// swept is the JSON form.
type swept struct {
	DryRun     bool `json:"dry_run"`
	Keys       int  `json:"keys"`
	Tasks      int  `json:"tasks"`
	LiveTexts  int  `json:"live_texts"`
	BudgetDays int  `json:"budget_days"`
	More       bool `json:"more"` // of a dry run: there is more than was counted
}

var sweptColumns = []cli.Column[swept]{
	{Title: "KEYS", Text: func(s swept) string { return cli.Number(s.Keys) }},
	{Title: "TASKS", Text: func(s swept) string { return cli.Number(s.Tasks) }},
	{Title: "LIVE TEXTS", Text: func(s swept) string { return cli.Number(s.LiveTexts) }},
	{Title: "BUDGET DAYS", Text: func(s swept) string { return cli.Number(s.BudgetDays) }},
}

func newSweep(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Delete what retention allows",
		Long: `Delete what nobody needs any more: idempotency keys that have expired and whose task is finished, texts that calls have
left behind, the accounts of budgets that are older than 90 days, and, with --task-retention, finished tasks. The
dispatcher role does the same every few minutes; both may run at once, and any number of them.

A message goes with its task once nothing that regenerates it is left. Tasks that are gone are gone from the ledger, too.
A record in Kafka that still points at one becomes a dead letter: keep tasks longer than the topic keeps records.`,
		Example: "  fencepost sweep --dry-run\n  fencepost sweep --task-retention 2160h -o json",
		Args:    arguments(),
	}
	var postgres postgresSettings
	var settings sweepSettings
	settingsFor(cmd, postgres.flags, settings.flags)
	dry := cmd.Flags().Bool("dry-run", false, "delete nothing, and count what would be deleted")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		if err := settings.check(); err != nil {
			return err
		}
		store, err := postgres.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		c := tasks.SweepConfig{Tasks: settings.taskRetention, Limit: sweepBatch}
		if *dry {
			c.DryRun, c.Limit = true, sweepSample
		}
		done, err := a.sweep(cmd.Context(), store.Sweep, c)
		if err != nil {
			if done.Keys+done.Tasks+done.LiveTexts+done.BudgetDays > 0 && !*dry {
				a.note("deleted so far: %d keys, %d tasks, %d live texts, %d budget days", done.Keys, done.Tasks, done.LiveTexts, done.BudgetDays)
			}
			return storeError(err)
		}
		if done.More {
			a.note("there is more: the count of each kind ends at %d", sweepSample)
		}
		return cli.One(a.Out, *output, done, sweptColumns)
	}
	return cmd
}

// sweep goes on until nothing is left, and says now and then how far it is.
func (a *app) sweep(ctx context.Context, batch func(context.Context, tasks.SweepConfig) (tasks.Swept, error), c tasks.SweepConfig) (swept, error) {
	sum := swept{DryRun: c.DryRun}
	for told := time.Now(); ; {
		s, err := batch(ctx, c)
		sum.Keys, sum.Tasks = sum.Keys+s.Keys, sum.Tasks+s.Tasks
		sum.LiveTexts, sum.BudgetDays = sum.LiveTexts+s.LiveTexts, sum.BudgetDays+s.BudgetDays
		if c.After = s.After; err != nil || !s.More {
			return sum, err
		}
		if c.DryRun { // the same rows would be counted again
			sum.More = true
			return sum, nil
		}
		if time.Since(told) > 2*time.Second {
			told = time.Now()
			a.note("deleted %d keys, %d tasks, %d live texts, %d budget days so far", sum.Keys, sum.Tasks, sum.LiveTexts, sum.BudgetDays)
		}
	}
}
