package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/deadletter"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/tasks"
)

func newDLQ(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use: "dlq", Aliases: []string{"deadletters", "dead-letters"},
		Short: "Look at dead letters, and put them back",
		Long: `Look at dead letters, and put them back. A record that is no pointer to a task, or points at a task that there is
not, goes to TOPIC.dlq with its own key and value. Dead letters are read without a group; no offset of any group moves.
A letter is named by its place there, PARTITION:OFFSET.`,
	}, newDLQList(a), newDLQShow(a), newDLQRequeue(a))
}

// letters is what the verbs on dead letters have in common.
type letters struct {
	a        *app
	kafka    kafkaSettings
	postgres postgresSettings
	timeout  time.Duration

	reason *cli.Choice
	since  time.Duration
	limit  int
}

func (l *letters) flags(cmd *cobra.Command) {
	settingsFor(cmd, l.kafka.flags, l.postgres.flags)
	cmd.Flags().DurationVar(&l.timeout, "timeout", 30*time.Second, "longest wait for the brokers")
}

func (l *letters) filters(cmd *cobra.Command, limit int) {
	l.reason = cli.NewChoice(append([]string{"any"}, deadletter.Reasons...)...)
	cmd.Flags().Var(l.reason, "reason", "only letters with this reason")
	_ = cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(l.reason.Words(), cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().DurationVar(&l.since, "since", 0, "only letters written in this time; 0: all")
	cmd.Flags().IntVar(&l.limit, "limit", limit, "the newest so many, up to 10000")
}

// open reads the settings.
func (l *letters) open(cmd *cobra.Command) (k node.Kafka, t deadletter.Topic, err error) {
	if err = l.a.load(cmd); err != nil {
		return k, t, err
	}
	if l.timeout < 100*time.Millisecond {
		return k, t, cli.Usage("", "--timeout: %s is too short, the least is 100ms", l.timeout)
	}
	if l.reason != nil && (l.limit < 1 || l.limit > 10_000) {
		return k, t, cli.Usage("", "--limit: %d is not within 1 and 10000", l.limit)
	}
	if l.since < 0 {
		return k, t, cli.Usage("", "--since: %s is below 0", l.since)
	}
	if k, err = l.kafka.read(l.a); err != nil {
		return k, t, err
	}
	t.Name = k.DLQ()
	t.Options, err = k.AdminOptions(l.a.logger(cmd))
	return k, t, err
}

func (l *letters) query() deadletter.Query {
	q := deadletter.Query{Limit: l.limit}
	if l.reason.String() != "any" {
		q.Reason = l.reason.String()
	}
	if l.since > 0 {
		q.Since = time.Now().Add(-l.since)
	}
	return q
}

// ask looks the letters' tasks up, where a store is named.
func (l *letters) ask(ctx context.Context, list []deadletter.Letter) error {
	if l.postgres.url == "" || len(list) == 0 {
		return nil
	}
	store, err := l.postgres.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	return askTasks(ctx, store, list)
}

// askTasks fills in the status of the tasks. A task of another workspace is none that the record may speak of.
func askTasks(ctx context.Context, store tasks.Watched, list []deadletter.Letter) error {
	var ids []uuid.UUID
	for _, letter := range list {
		if id, err := uuid.Parse(letter.Task); err == nil {
			ids = append(ids, id)
		}
	}
	found, err := store.Progress(ctx, ids)
	if err != nil {
		return storeError(err)
	}
	status := make(map[string]string, len(found))
	for _, p := range found {
		status[p.TaskID.String()+" "+p.Workspace] = string(p.Status)
	}
	for i := range list {
		if letter := &list[i]; letter.Readable() {
			letter.TaskStatus = "missing"
			if s, ok := status[letter.Task+" "+letter.Workspace]; ok {
				letter.TaskStatus = s
			}
		}
	}
	return nil
}

// explain adds what to do to a failure.
func (l *letters) explain(k node.Kafka, err error) error {
	var known *cli.Error
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, deadletter.ErrNoLetter):
		return cli.Fail("fencepost dlq list", "%w", err)
	case errors.Is(err, deadletter.ErrNoTopic):
		return cli.Fail("fencepost topics create --kafka-brokers "+k.Address()+" --kafka-topic "+k.Topic, "Kafka at %s: %w", k.Address(), err)
	}
	return cli.Fail("check --kafka-brokers, that the broker runs, and that its advertised listeners are reachable from here; or give it more --timeout",
		"Kafka at %s: %w", k.Address(), err)
}

func newDLQList(a *app) *cobra.Command {
	l := &letters{a: a}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, oldest first",
		Long: `List dead letters, oldest first: the newest of them, as many as --limit says. With --postgres-url the tasks that they
point at are looked up.`,
		Example: "  fencepost dlq list --kafka-brokers localhost:9092\n  fencepost dlq list --reason unreadable --since 24h -o jsonl",
		Args:    arguments(),
	}
	l.flags(cmd)
	l.filters(cmd, 100)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		k, topic, err := l.open(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), l.timeout)
		defer cancel()
		list, err := topic.List(ctx, l.query())
		if err == nil {
			err = l.ask(ctx, list)
		}
		if err != nil {
			return l.explain(k, err)
		}
		for i := range list {
			list[i].Headers = nil // what is ours in them has its own fields
		}
		return cli.List(a.Out, *output, "letters", list, letterColumns)
	}
	return cmd
}

func newDLQShow(a *app) *cobra.Command {
	l := &letters{a: a}
	cmd := &cobra.Command{
		Use:     "show LETTER",
		Short:   "Show a dead letter with its content and headers",
		Example: "  fencepost dlq show 0:17 -o json",
		Args:    arguments("LETTER"),
	}
	l.flags(cmd)
	output := outputFlag(cmd)
	cmd.ValidArgsFunction = l.complete
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		k, topic, err := l.open(cmd)
		if err != nil {
			return err
		}
		ids, err := letterIDs(args)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), l.timeout)
		defer cancel()
		list, err := topic.Get(ctx, ids)
		if err == nil {
			err = l.ask(ctx, list)
		}
		if err != nil {
			return l.explain(k, err)
		}
		columns := append([]cli.Column[deadletter.Letter]{}, letterColumns...)
		for i := range columns {
			columns[i].Wide = false
		}
		columns = append(columns,
			cli.Column[deadletter.Letter]{Title: "VALUE", Text: func(l deadletter.Letter) string { return bytesCell(l.Value) }},
			cli.Column[deadletter.Letter]{Title: "HEADERS", Text: func(l deadletter.Letter) string {
				parts := make([]string, len(l.Headers))
				for i, h := range l.Headers {
					parts[i] = h.Key + "=" + h.Value.String()
				}
				return strings.Join(parts, ", ")
			}})
		return cli.One(a.Out, *output, list[0].Whole(), columns)
	}
	return cmd
}

func letterIDs(args []string) ([]deadletter.ID, error) {
	ids := make([]deadletter.ID, len(args))
	for i, arg := range args {
		var err error
		if ids[i], err = deadletter.ParseID(arg); err != nil {
			return nil, cli.Usage("fencepost dlq list names them", "%q is no letter: %v", arg, err)
		}
	}
	return ids, nil
}

// complete offers letters. It gives up soon and says nothing: a shell waits for it.
func (l *letters) complete(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	none := cobra.ShellCompDirectiveNoFileComp
	_, topic, err := l.open(cmd)
	if err != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	list, _ := topic.List(ctx, deadletter.Query{Limit: 50})
	var words []string
	for _, letter := range list {
		if id := letter.ID.String(); strings.HasPrefix(id, begun) {
			words = append(words, fmt.Sprintf("%s\t%s", id, letter.Reason))
		}
	}
	return words, none
}

var letterColumns = []cli.Column[deadletter.Letter]{
	{Title: "LETTER", Text: func(l deadletter.Letter) string { return l.ID.String() }},
	{Title: "WRITTEN", Text: func(l deadletter.Letter) string { return cli.Time(l.WrittenAt) }},
	{Title: "REASON", Text: func(l deadletter.Letter) string { return l.Reason }},
	{Title: "FROM", Text: func(l deadletter.Letter) string {
		if l.Partition == nil || l.Offset == nil {
			return ""
		}
		return cli.Number(*l.Partition) + ":" + cli.Number(*l.Offset)
	}},
	{Title: "RECORDED", Wide: true, Text: func(l deadletter.Letter) string {
		if l.RecordedAt == nil {
			return ""
		}
		return cli.Time(*l.RecordedAt)
	}},
	{Title: "TASK", Text: func(l deadletter.Letter) string { return l.Task }},
	{Title: "TASK STATUS", Text: func(l deadletter.Letter) string { return l.TaskStatus }},
	{Title: "WORKSPACE", Wide: true, Text: func(l deadletter.Letter) string { return l.Workspace }},
	{Title: "KEY", Text: func(l deadletter.Letter) string { return bytesCell(l.Key) }},
	{Title: "BYTES", Text: func(l deadletter.Letter) string { return cli.Number(l.ValueBytes) }},
	{Title: "OMITTED", Wide: true, Text: func(l deadletter.Letter) string { return l.Omitted }},
}

func bytesCell(b *deadletter.Bytes) string {
	if b == nil {
		return ""
	}
	return b.String()
}
