package main

import (
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/offsets/replay"
)

func newReplay(a *app) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "replay",
		Short: "Have the tasks of a range of records run again, or move a group back",
		Long: `Read a range of records without being a member of any group, and re-arm the tasks that they point at: a new handoff
and a new budget, of --max-attempts more calls within --deadline from now. Without --execute the plan is printed and
nothing is changed. No position of any group moves, saved replies stay, and completed and cancelled tasks are never run
again: --only failed takes those that failed, unfinished those that wait for a record or whose worker is gone, all both.

The range ends before --to-offset or --to-time, or at the end that the log has now. A time is RFC 3339, or how long ago.
An interrupted replay goes on where it stopped when the same command is given again: each task is re-armed once.

Exit codes: 0 done, also when there was nothing to do; 2 not confirmed; 3 out of range; 4 partly done.`,
		Example: "  fencepost replay --partition 0 --from-offset 100 --to-offset 200\n" +
			"  fencepost replay --all-partitions --since 2h --execute --reason \"quota was raised\" --yes",
	}, newRewind(a))
	var kafka kafkaSettings
	var postgres postgresSettings
	var which partitionFlags
	var ends rangeFlags
	r := &rearming{kind: "range"}
	settingsFor(cmd, kafka.flags, postgres.flags)
	which.flags(cmd.Flags())
	ends.flags(cmd.Flags())
	only := cli.NewChoice("failed", "unfinished", "all")
	cmd.Flags().Var(only, "only", "which tasks are run again")
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(only.Words(), cobra.ShellCompDirectiveNoFileComp))
	clamp := cmd.Flags().Bool("clamp", false, "take the nearest offset that there is for one out of range")
	arm(cmd, &r.consent, &r.rearmSettings)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		k, err := kafka.read(a)
		if err != nil {
			return err
		}
		if err := postgres.check(); err != nil {
			return err
		}
		if err := r.consent.check(true); err != nil {
			return err
		}
		if err := r.rearmSettings.check(); err != nil {
			return err
		}
		partitions, err := which.read()
		if err != nil {
			return err
		}
		from, to, err := ends.read(cmd.Flags())
		if err != nil {
			return err
		}
		store, err := postgres.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		log, closeLog, err := openLog(a, cmd, &kafka)
		if err != nil {
			return err
		}
		defer closeLog()
		id, bounds, err := log.Describe(cmd.Context())
		if err != nil {
			return kafkaReadError(err)
		}
		if which.all {
			for p := range bounds {
				partitions = append(partitions, p)
			}
			slices.Sort(partitions)
		}
		r.output = *output
		r.terms = r.rearmSettings.terms(only.String() != "unfinished", only.String() != "failed")
		r.scope = scope(r.kind, k.Topic, id, partitions, ends.words(cmd.Flags()), only.String(), r.unsure)
		r.plan = func() (replay.Plan, error) {
			spans, err := log.Spans(cmd.Context(), from, to, partitions, bounds, *clamp)
			return replay.Plan{Kind: r.kind, Group: k.Group, Topic: k.Topic, Partitions: spans}, kafkaReadError(err)
		}
		r.items = func(p replay.Plan, c replay.Cursor) iter.Seq2[replay.Item, error] {
			return log.Read(cmd.Context(), p.Partitions, c)
		}
		return r.run(cmd.Context(), a, store)
	}
	return cmd
}

// openLog reaches the topic. What is opened is closed by the second result.
func openLog(a *app, cmd *cobra.Command, kafka *kafkaSettings) (*replay.Log, func(), error) {
	k, err := kafka.read(a)
	if err != nil {
		return nil, nil, err
	}
	options, err := k.Options("replay", nil, a.logger(cmd))
	if err != nil {
		return nil, nil, err
	}
	options = append(options, kgo.MetadataMinAge(100*time.Millisecond),
		kgo.RetryTimeout(5*time.Second), kgo.DialTimeout(3*time.Second), kgo.RequestTimeoutOverhead(3*time.Second))
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, nil, err
	}
	return replay.NewLog(k.Topic, kadm.NewClient(client), options), client.Close, nil
}

// partitionFlags name partitions.
type partitionFlags struct {
	list []string
	all  bool
}

func (p *partitionFlags) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&p.list, "partition", nil, "`partitions`, like 0 or 0,3")
	f.BoolVar(&p.all, "all-partitions", false, "all partitions of the topic")
}

func (p *partitionFlags) read() ([]int32, error) {
	if p.all == (len(p.list) > 0) {
		return nil, cli.Usage("for example --partition 0", "either --partition or --all-partitions is needed")
	}
	var out []int32
	for _, word := range p.list {
		n, err := strconv.ParseInt(word, 10, 32)
		if err != nil || n < 0 {
			return nil, cli.Usage("for example --partition 0,3", "--partition: %q is not a partition", word)
		}
		out = append(out, int32(n))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// rangeFlags say where a range begins and ends.
type rangeFlags struct {
	fromOffset, toOffset int64
	fromTime, toTime     string
	since                time.Duration
	earliest             bool
}

func (r *rangeFlags) flags(f *pflag.FlagSet) {
	f.Int64Var(&r.fromOffset, "from-offset", 0, "begin at this `offset`")
	f.StringVar(&r.fromTime, "from-time", "", "begin at the first record as new as this `time`")
	f.DurationVar(&r.since, "since", 0, "begin at the first record that is at most this old")
	f.BoolVar(&r.earliest, "from-earliest", false, "begin at the oldest record that there is")
	f.Int64Var(&r.toOffset, "to-offset", 0, "end before this `offset`")
	f.StringVar(&r.toTime, "to-time", "", "end before the first record as new as this `time`")
}

var rangeNames = []string{"from-offset", "from-time", "since", "from-earliest", "to-offset", "to-time"}

// words are the flags as they were given: what makes a command the same one again.
func (r *rangeFlags) words(f *pflag.FlagSet) (words []string) {
	for _, name := range rangeNames {
		if given := f.Lookup(name); given.Changed {
			words = append(words, name+"="+given.Value.String())
		}
	}
	return words
}

func (r *rangeFlags) read(f *pflag.FlagSet) (from, to replay.Target, err error) {
	if name, err := oneOf(f, rangeNames[:4], true); err != nil {
		return from, to, err
	} else if from, err = r.target(name); err != nil {
		return from, to, err
	}
	name, err := oneOf(f, rangeNames[4:], false)
	if err != nil {
		return from, to, err
	}
	to, err = r.target(name)
	return from, to, err
}

func (r *rangeFlags) target(name string) (replay.Target, error) {
	switch name {
	case "from-offset":
		return offsetTarget(name, r.fromOffset)
	case "to-offset":
		return offsetTarget(name, r.toOffset)
	case "from-time":
		return timeTarget(name, r.fromTime)
	case "to-time":
		return timeTarget(name, r.toTime)
	case "since":
		if r.since <= 0 {
			return replay.Target{}, cli.Usage("for example --since 2h", "--since: %s is not above 0", r.since)
		}
		return replay.Since(time.Now().Add(-r.since)), nil
	case "from-earliest":
		return replay.Start(), nil
	}
	return replay.End(), nil
}

// oneOf finds which of the flags was given; "" when none was and none is needed.
func oneOf(f *pflag.FlagSet, names []string, needed bool) (string, error) {
	var given string
	for _, name := range names {
		if !f.Lookup(name).Changed {
			continue
		}
		if given != "" {
			return "", cli.Usage("", "--%s and --%s exclude each other", given, name)
		}
		given = name
	}
	if given == "" && needed {
		hint := "one of:"
		for _, name := range names {
			hint += " --" + name
		}
		return "", cli.Usage(hint, "--%s is missing", names[0])
	}
	return given, nil
}

func offsetTarget(name string, offset int64) (replay.Target, error) {
	if offset < 0 {
		return replay.Target{}, cli.Usage("", "--%s: %d is below 0", name, offset)
	}
	return replay.At(offset), nil
}

// timeTarget reads an instant, or how long ago.
func timeTarget(name, word string) (replay.Target, error) {
	if at, err := time.Parse(time.RFC3339, word); err == nil {
		return replay.Since(at), nil
	}
	if ago, err := time.ParseDuration(word); err == nil && ago >= 0 {
		return replay.Since(time.Now().Add(-ago)), nil
	}
	return replay.Target{}, cli.Usage("for example 2026-11-30T06:00:00Z, or 2h for two hours ago", "--%s: %q is neither a time nor a duration", name, word)
}
