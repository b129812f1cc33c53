package main

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/offsets/replay"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// selectPage is how many tasks are selected at once.
const selectPage = 500

func newTasksRetry(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry [ID...]",
		Short: "Have tasks run again that have failed, or that nothing brings on",
		Long: `Re-arm tasks: a new handoff and a new budget, of --max-attempts more calls within --deadline from now. Without
--execute the plan is printed and nothing is changed. Tasks are named by their ids, or described by --status with
--class, --since and --workspace. Completed and cancelled tasks are never run again.

An interrupted retry goes on where it stopped when the same command is given again: each task is re-armed once.

Exit codes: 0 done, also when there was nothing to do; 2 not confirmed; 4 partly done.`,
		Example: "  fencepost tasks retry 0190163d-8694-739b-aea5-966c26f8ad91\n" +
			"  fencepost tasks retry --status failed --class quota --since 2h --execute --reason \"quota was raised\" --yes",
	}
	var settings postgresSettings
	r := &rearming{kind: "tasks"}
	settingsFor(cmd, settings.flags)
	status := cli.NewChoice("none", string(tasks.StatusFailed), string(tasks.StatusQueued), string(tasks.StatusRunning))
	cmd.Flags().Var(status, "status", "tasks of this status, instead of ids")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(status.Words()[1:], cobra.ShellCompDirectiveNoFileComp))
	var by tasks.Selection
	cmd.Flags().StringVar(&by.Class, "class", "", "only those whose last failure is of this `class`, like quota or deadline")
	cmd.Flags().DurationVar(&by.Within, "since", 0, "only those that finished, or else were accepted, at most this long ago")
	cmd.Flags().StringVar(&by.Workspace, "workspace", "", "only those of this `workspace`")
	arm(cmd, &r.consent, &r.rearmSettings)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		if err := r.consent.check(true); err != nil {
			return err
		}
		if err := r.rearmSettings.check(); err != nil {
			return err
		}
		described := status.String() != "none"
		switch {
		case described && len(args) > 0:
			return cli.Usage("", "either ids or --status: %q and --status %s exclude each other", args[0], status)
		case !described && (by.Class != "" || by.Within != 0 || by.Workspace != ""):
			return cli.Usage("add --status failed", "--class, --since and --workspace need --status")
		case !described && len(args) == 0:
			return cli.Usage("fencepost tasks retry --status failed", "ID or --status is missing")
		case by.Within < 0:
			return cli.Usage("", "--since: %s is below 0", by.Within)
		}
		var ids []uuid.UUID
		for _, word := range args {
			id, err := parseID(word)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		ids = slices.Compact(ids)
		store, err := settings.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		r.output = *output
		r.plan = func() (replay.Plan, error) { return replay.Plan{Kind: r.kind, Partitions: []replay.Span{}}, nil }
		if described {
			by.Status = tasks.Status(status.String())
			r.terms = r.rearmSettings.terms(by.Status == tasks.StatusFailed, by.Status != tasks.StatusFailed)
			r.scope = scope(r.kind, by.Status, by.Class, by.Within, by.Workspace, r.unsure)
			r.items = func(_ replay.Plan, c replay.Cursor) iter.Seq2[replay.Item, error] {
				return selected(cmd.Context(), store, by, c)
			}
			return r.run(cmd.Context(), a, store)
		}
		var list []replay.Ref
		for _, id := range ids {
			task, err := findTask(cmd.Context(), store, id)
			if err != nil {
				return err
			}
			list = append(list, replay.Ref{Task: id, Workspace: task.Workspace})
		}
		r.terms = r.rearmSettings.terms(true, true)
		r.scope = scope(r.kind, ids, r.unsure)
		r.items = func(_ replay.Plan, c replay.Cursor) iter.Seq2[replay.Item, error] {
			return replay.List(slices.DeleteFunc(slices.Clone(list), func(ref replay.Ref) bool { return ref.Task.String() <= c.After }))
		}
		return r.run(cmd.Context(), a, store)
	}
	return cmd
}

// selected yields the tasks that fit, by id, from the cursor on.
func selected(ctx context.Context, store *postgres.Store, by tasks.Selection, c replay.Cursor) iter.Seq2[replay.Item, error] {
	return func(yield func(replay.Item, error) bool) {
		after, _ := uuid.Parse(c.After) // of our own writing; else from the beginning, which re-arms nothing twice
		for {
			found, next, done, err := store.Select(ctx, by, after, selectPage)
			if err != nil {
				yield(replay.Item{}, storeError(err))
				return
			}
			for _, ref := range found {
				if !yield(replay.Item{Ref: replay.Ref{Task: ref.TaskID, Workspace: ref.Workspace}, Readable: true, Partition: -1}, nil) {
					return
				}
			}
			if after = next; done {
				return
			}
		}
	}
}
