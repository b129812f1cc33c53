package main

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/httpapi"
	"github.com/fencepost/fencepost/tasks/postgres"
)

func newTasks(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "tasks", Short: "Look at reply tasks, from the store"}, newTasksList(a), newTasksShow(a), newTasksCancel(a), newTasksRetry(a))
}

// taskRow has the JSON that the API answers.
type taskRow struct{ tasks.Task }

// MarshalJSON is the API's form.
func (t taskRow) MarshalJSON() ([]byte, error) { return httpapi.EncodeTask(t.Task) }

// taskDetail is a task with its ledger.
type taskDetail struct {
	taskRow
	attempts []tasks.Attempt
	records  []recordPlace // nil: they were not looked for
}

// MarshalJSON is the API's form of the task, with its attempts under "ledger".
func (d taskDetail) MarshalJSON() ([]byte, error) {
	task, err := httpapi.EncodeTask(d.Task)
	if err != nil {
		return nil, err
	}
	ledger, err := httpapi.EncodeAttempts(d.attempts)
	if err != nil {
		return nil, err
	}
	return withRecords(slices.Concat(task[:len(task)-1], []byte(`,"ledger":`), ledger, []byte("}")), d.records)
}

func taskColumns[T any](task func(T) tasks.Task) []cli.Column[T] {
	column := func(title string, wide bool, text func(tasks.Task) string) cli.Column[T] {
		return cli.Column[T]{Title: title, Wide: wide, Text: func(row T) string { return text(task(row)) }}
	}
	return []cli.Column[T]{
		column("ID", false, func(t tasks.Task) string { return t.ID.String() }),
		column("WORKSPACE", false, func(t tasks.Task) string { return t.Workspace }),
		column("CONVERSATION", false, func(t tasks.Task) string { return t.Conversation }),
		column("STATUS", false, func(t tasks.Task) string { return string(t.Status) }),
		column("ATTEMPTS", false, func(t tasks.Task) string { return cli.Number(t.Attempts) + "/" + cli.Number(t.MaxAttempts) }),
		column("ACCEPTED", false, func(t tasks.Task) string { return cli.Time(t.AcceptedAt) }),
		column("FINISHED", true, func(t tasks.Task) string { return cli.Time(t.FinishedAt) }),
		column("MODEL", true, func(t tasks.Task) string { return t.Model }),
		column("WORKER", true, func(t tasks.Task) string { return t.Worker }),
		column("FAILURE", false, func(t tasks.Task) string {
			if t.Failure == nil || t.Status == tasks.StatusCompleted {
				return ""
			}
			return t.Failure.Class + ": " + t.Failure.Message
		}),
	}
}

func newTasksList(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List reply tasks, newest first",
		Example: "  fencepost tasks list --status running\n  fencepost tasks list --workspace acme --conversation c-42 -o json",
		Args:    arguments(),
	}
	var postgres postgresSettings
	settingsFor(cmd, postgres.flags)
	words := []string{"any"}
	for _, s := range tasks.Statuses {
		words = append(words, string(s))
	}
	status := cli.NewChoice(words...)
	cmd.Flags().Var(status, "status", "only tasks of this status")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	workspace := cmd.Flags().String("workspace", "", "only tasks of this `workspace`")
	conversation := cmd.Flags().String("conversation", "", "only tasks of this `conversation`")
	limit := cmd.Flags().Int("limit", 100, "most tasks to list, up to 1000")
	after := cmd.Flags().String("after", "", "go on after the task with this `id`")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		filter := tasks.Filter{Workspace: *workspace, Conversation: *conversation, Limit: *limit}
		if *limit < 1 || *limit > 1000 {
			return cli.Usage("", "--limit: %d is not within 1 and 1000", *limit)
		}
		if status.String() != "any" {
			filter.Status = tasks.Status(status.String())
		}
		if *after != "" {
			var err error
			if filter.Before, err = parseID(*after); err != nil {
				return err
			}
		}
		store, err := postgres.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		found, err := store.Tasks(cmd.Context(), filter)
		if err != nil {
			return storeError(err)
		}
		rows := make([]taskRow, len(found))
		for i, t := range found {
			rows[i] = taskRow{t}
		}
		return cli.List(a.Out, *output, "tasks", rows, taskColumns(func(r taskRow) tasks.Task { return r.Task }))
	}
	return cmd
}

func newTasksShow(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show a reply task, its reply and its attempts",
		Long:    "Show a reply task, its reply and its attempts with what they cost. With --records the topic is read, from the time the task was accepted on, for the records that point at it; no group moves.",
		Example: "  fencepost tasks show 0190163d-8694-739b-aea5-966c26f8ad91 -o yaml\n  fencepost tasks show 0190163d-8694-739b-aea5-966c26f8ad91 --records --kafka-brokers localhost:9092",
		Args:    arguments("ID"),
	}
	var postgres postgresSettings
	var kafka kafkaSettings
	settingsFor(cmd, postgres.flags, kafka.flags)
	records := cmd.Flags().Bool("records", false, "look for the task's records in the topic, too; needs --kafka-brokers")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		store, task, err := a.taskOf(cmd, &postgres, args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		attempts, err := store.Attempts(cmd.Context(), task.Workspace, task.ID)
		if err != nil {
			return storeError(err)
		}
		detail := taskDetail{taskRow: taskRow{task}, attempts: attempts}
		if *records {
			log, done, err := openLog(a, cmd, &kafka)
			if err != nil {
				return err
			}
			defer done()
			if detail.records, err = recordsOf(cmd.Context(), log, task); err != nil {
				return recordsError(task.ID, err)
			}
		}
		columns := append(taskColumns(func(d taskDetail) tasks.Task { return d.Task }),
			cli.Column[taskDetail]{Title: "REPLY", Text: func(d taskDetail) string {
				if d.Reply == nil {
					return ""
				}
				return d.Reply.Text
			}},
			cli.Column[taskDetail]{Title: "TEMPLATE", Text: func(d taskDetail) string {
				if d.PromptTemplateVersion == "" {
					return d.PromptTemplate
				}
				return d.PromptTemplate + "@" + d.PromptTemplateVersion
			}},
			cli.Column[taskDetail]{Title: "HISTORY", Text: func(d taskDetail) string { return history(d.Task) }},
			cli.Column[taskDetail]{Title: "LEDGER", Text: func(d taskDetail) string { return ledger(d.attempts) }})
		if *records {
			columns = append(columns, cli.Column[taskDetail]{Title: "RECORDS", Text: func(d taskDetail) string { return placesText(d.records) }})
		}
		for i := range columns {
			columns[i].Wide = false
		}
		return cli.One(a.Out, *output, detail, columns)
	}
	return cmd
}

// history is how much of the conversation was sent along.
func history(t tasks.Task) string {
	switch {
	case t.HistoryDropped > 0:
		return cli.Number(t.HistoryTurns) + " turns, " + cli.Number(t.HistoryDropped) + " left out"
	case t.HistoryTurns > 0:
		return cli.Number(t.HistoryTurns) + " turns"
	}
	return ""
}

// ledger is the attempts on one line.
func ledger(attempts []tasks.Attempt) string {
	parts := make([]string, len(attempts))
	number := make(map[int64]int, len(attempts)) // by version
	for i, a := range attempts {
		number[a.Version] = a.Number
		parts[i] = "#" + cli.Number(a.Number) + " " + string(a.Outcome)
		if from, ok := number[a.Recovered]; ok {
			parts[i] += " with the answer of #" + cli.Number(from)
		}
		if a.FailureClass != "" {
			parts[i] += " (" + a.FailureClass + ")"
		}
	}
	return strings.Join(parts, ", ")
}

// taskOf loads the settings, opens the store and finds the task that a command was given. The store is the caller's to
// close when there is no error.
func (a *app) taskOf(cmd *cobra.Command, settings *postgresSettings, arg string) (*postgres.Store, tasks.Task, error) {
	if err := a.load(cmd); err != nil {
		return nil, tasks.Task{}, err
	}
	id, err := parseID(arg)
	if err != nil {
		return nil, tasks.Task{}, err
	}
	store, err := settings.open(cmd.Context())
	if err != nil {
		return nil, tasks.Task{}, err
	}
	task, err := findTask(cmd.Context(), store, id)
	if err != nil {
		store.Close()
		return nil, tasks.Task{}, err
	}
	return store, task, nil
}

// findTask finds a task whatever its workspace: an operator has its id from a log. The list of tasks older than the id
// that follows it begins with the task itself.
func findTask(ctx context.Context, store *postgres.Store, id uuid.UUID) (tasks.Task, error) {
	next := id
	for i := len(next) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			break
		}
	}
	found, err := store.Tasks(ctx, tasks.Filter{Before: next, Limit: 1})
	if err != nil {
		return tasks.Task{}, storeError(err)
	}
	if len(found) == 0 || found[0].ID != id {
		return tasks.Task{}, cli.Fail("fencepost tasks list", "there is no task %s", id)
	}
	// The list leaves out what only one task needs.
	task, err := store.Task(ctx, found[0].Workspace, id)
	if err != nil {
		return tasks.Task{}, storeError(err)
	}
	return task, nil
}

func newTasksCancel(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cancel ID",
		Short:   "Cancel a reply task, also a running one",
		Long:    "Cancel a reply task. A running call is broken off when its worker renews the lease, and its answer is refused. A task that is finished stays as it is, and the exit code is 3.",
		Example: "  fencepost tasks cancel 0190163d-8694-739b-aea5-966c26f8ad91",
		Args:    arguments("ID"),
	}
	var postgres postgresSettings
	settingsFor(cmd, postgres.flags)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		store, task, err := a.taskOf(cmd, &postgres, args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		task, changed, err := store.Cancel(cmd.Context(), task.Workspace, task.ID)
		if err != nil {
			return storeError(err)
		}
		if err := cli.One(a.Out, *output, taskRow{task}, taskColumns(func(r taskRow) tasks.Task { return r.Task })); err != nil {
			return err
		}
		if !changed {
			return cli.Refuse("", "the task was %s already; nothing was changed", task.Status)
		}
		return nil
	}
	return cmd
}
