package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/offsets/lag"
	places "github.com/fencepost/fencepost/offsets/postgres"
	"github.com/fencepost/fencepost/tasks/postgres"
)

// lagCommand is one `fencepost lag`.
type lagCommand struct {
	a        *app
	kafka    kafkaSettings
	postgres postgresSettings

	group, topic string
	members      bool
	failOver     time.Duration
	watch        time.Duration
	window       time.Duration
	blockedAfter time.Duration
	exact        bool
	timeout      time.Duration
	output       *cli.Format
}

func newLag(a *app) *cobra.Command {
	l := &lagCommand{a: a}
	cmd := &cobra.Command{
		Use:   "lag",
		Short: "Show how far a group is behind, and why",
		Long: `Show how far a group is behind on a topic, and why: of each partition the records between the commit and the end, the
age of the record at the position, that record with its task, what is settled beyond it, and a judgement:

  OK         nothing to do, or it moves
  WARN       it moves, and the lag does not fall
  NO_COMMIT  the group has committed nothing; the lag counts from the log's start
  REWIND     the position went back, or was committed for a log that is gone
  BLOCKED    one record holds settled ones back
  STALL      a member has the partition, and nothing moves
  STOP       no member has the partition
  UNKNOWN    it could not be read

Nothing is changed: no group is joined and no offset moves. It needs Kafka only; with --postgres-url it says what the
store knows of the positions and of the tasks. Two looks a --window apart tell whether a partition moves; the judgement
is surer with a longer one, and with --watch. Exit code 5: --fail-over is exceeded.`,
		Example: `  fencepost lag --kafka-brokers localhost:9092
  fencepost lag --group other-group --topic other-topic -o json
  fencepost lag --watch=5s --members
  fencepost lag --fail-over 5m -o jsonl`,
		Args: arguments(),
	}
	settingsFor(cmd, l.kafka.flags, l.postgres.flags)
	f := cmd.Flags()
	f.StringVar(&l.group, "group", "", "the `group` to look at, instead of --kafka-group")
	f.StringVar(&l.topic, "topic", "", "the `topic` to look at, instead of --kafka-topic")
	f.BoolVar(&l.members, "members", false, "show the group's members")
	f.DurationVar(&l.failOver, "fail-over", 0, "exit with 5 when a record has waited for longer than this; 0: never")
	f.DurationVar(&l.watch, "watch", 0, "look again and again, this long apart; alone: every 2s")
	f.Lookup("watch").NoOptDefVal = "2s"
	f.DurationVar(&l.window, "window", time.Second, "time between the two looks that tell whether it moves; 0: one look")
	f.DurationVar(&l.blockedAfter, "blocked-after", 2*time.Minute, "for how long one record may hold settled ones back")
	f.BoolVar(&l.exact, "exact", false, "count records by reading them, where compaction or transactions leave holes")
	f.DurationVar(&l.timeout, "timeout", 20*time.Second, "longest wait for one look")
	_ = cmd.RegisterFlagCompletionFunc("group", l.complete(listGroups))
	_ = cmd.RegisterFlagCompletionFunc("topic", l.complete(listTopics))
	l.output = outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return l.run(cmd) }
	return cmd
}

func (l *lagCommand) run(cmd *cobra.Command) error {
	if err := l.a.load(cmd); err != nil {
		return err
	}
	k, err := l.kafka.read(l.a)
	if err != nil {
		return err
	}
	for _, flag := range []struct {
		name string
		to   *string
		word string
	}{{"group", &k.Group, l.group}, {"topic", &k.Topic, l.topic}} {
		if cmd.Flags().Changed(flag.name) {
			if *flag.to = flag.word; flag.word == "" {
				return cli.Usage("", "--%s must not be empty", flag.name)
			}
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"fail-over", l.failOver, 0}, {"watch", l.watch, 0}, {"window", l.window, 0}, {"blocked-after", l.blockedAfter, time.Second},
		{"timeout", l.timeout, 100 * time.Millisecond},
	} {
		if d.value < d.least {
			return cli.Usage("", "--%s: %s is too short, the least is %s", d.name, d.value, d.least)
		}
	}
	ctx := cmd.Context()
	client, err := k.Client(l.a.logger(cmd))
	if err != nil {
		return err
	}
	defer client.Close()
	config := lag.Config{Client: client, Group: k.Group, Topic: k.Topic, Exact: l.exact}
	if l.postgres.url != "" {
		store, err := l.openStore(ctx)
		if err != nil {
			// Kafka alone says most of it, and may be all that is up.
			l.a.note("Note: without the store: %v", err)
		} else {
			defer store.Close()
			config.Positions, config.Tasks = node.LagPositions(places.New(store.Pool())), node.LagTasks{Store: store}
		}
	}
	return l.look(ctx, k, config)
}

func (l *lagCommand) openStore(ctx context.Context) (*postgres.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return l.postgres.open(ctx)
}

// look reads, shows and judges, once or until ctx ends.
func (l *lagCommand) look(ctx context.Context, k node.Kafka, config lag.Config) error {
	history := lag.NewHistory(lag.Rules{BlockedAfter: l.blockedAfter}, 0, 0)
	pause := l.window
	for n := 0; ; n++ {
		report, err := l.read(ctx, config)
		if err != nil {
			return l.explain(k, err)
		}
		report = history.Add(report)
		if n > 0 || l.window == 0 {
			if err := l.show(report, n); err != nil {
				return err
			}
			if err := l.judge(report); err != nil || l.watch == 0 {
				return err
			}
			pause = l.watch
		}
		select {
		case <-ctx.Done():
			if l.watch > 0 {
				return nil // that is how a watch ends
			}
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (l *lagCommand) read(ctx context.Context, config lag.Config) (lag.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return lag.Read(ctx, config)
}

func (l *lagCommand) explain(k node.Kafka, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, lag.ErrNoTopic):
		return cli.Fail("fencepost topics create --kafka-brokers "+k.Address()+" --kafka-topic "+k.Topic+", or name another with --topic",
			"Kafka at %s: %w", k.Address(), err)
	}
	return cli.Fail("check --kafka-brokers, that the broker runs, and that its advertised listeners are reachable from here",
		"Kafka at %s: %w", k.Address(), err)
}

// judge is the exit code. What could not be read is not within a limit.
func (l *lagCommand) judge(r lag.Report) error {
	if l.failOver == 0 {
		return nil
	}
	if r.MaxSeconds.Duration() > l.failOver {
		return &cli.Error{Code: cli.Threshold, Hint: "the partitions with the greatest SECONDS say why",
			Err: fmt.Errorf("a record has waited for %s, longer than --fail-over %s", r.MaxSeconds.Duration().Round(time.Millisecond), l.failOver)}
	}
	if !r.Complete {
		return cli.Fail("the partitions that are UNKNOWN say why", "not every partition could be read, so nobody knows whether --fail-over %s is exceeded", l.failOver)
	}
	return nil
}

// complete offers names that the brokers know. It gives up soon and says nothing: a shell waits for it.
func (l *lagCommand) complete(names func(context.Context, *kadm.Client) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		none := cobra.ShellCompDirectiveNoFileComp
		if l.a.load(cmd) != nil {
			return nil, none
		}
		k, err := l.kafka.read(l.a)
		if err != nil {
			return nil, none
		}
		client, err := k.Client(l.a.logger(cmd))
		if err != nil {
			return nil, none
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		list, _ := names(ctx, kadm.NewClient(client))
		list = slices.DeleteFunc(list, func(s string) bool { return !strings.HasPrefix(s, begun) })
		slices.Sort(list)
		return list, none
	}
}

func listGroups(ctx context.Context, admin *kadm.Client) ([]string, error) {
	groups, err := admin.ListGroups(ctx)
	return groups.Groups(), err
}

func listTopics(ctx context.Context, admin *kadm.Client) ([]string, error) {
	topics, err := admin.ListTopics(ctx)
	return topics.Names(), err
}

// number is an offset in a cell.
func number(o lag.Offset) string {
	if o < 0 {
		return ""
	}
	return strconv.FormatInt(int64(o), 10)
}
