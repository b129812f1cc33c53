package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
)

// app is what every verb gets.
type app struct {
	*cli.Streams
	root *cobra.Command
	// settings are the effective values of the command that runs, once load was called.
	settings []cli.Setting
}

// execute runs one command line.
func execute(ctx context.Context, streams *cli.Streams, args []string) error {
	a := &app{Streams: streams}
	a.root = newRoot(a)
	a.root.SetArgs(args)
	a.root.SetIn(streams.In)
	a.root.SetOut(streams.Out)
	a.root.SetErr(streams.Err)
	return a.root.ExecuteContext(ctx)
}

func newRoot(a *app) *cobra.Command {
	root := group(&cobra.Command{
		Use:   "fencepost",
		Short: "Turn a chat message into exactly one saved reply",
		Long: `Fencepost turns a chat message into exactly one saved reply, whatever crashes, retries and redeliveries happen
on the way. Start with: fencepost dev

Every setting is a flag, an environment variable FENCEPOST_<FLAG>, or a key of the --config file; a flag wins over the
environment, that over the file, that over the default. "fencepost config show" prints what is in effect and why.

Exit codes: 0 done, 1 failed, 2 usage error or cancelled, 3 refused because a precondition does not hold, 4 partly
done, 5 a limit that was asked about is exceeded.`,
		SilenceErrors: true, // Main prints them
		SilenceUsage:  true,
	},
		newDev(a), newRun(a), newMigrate(a), newTopics(a), newKeys(a), newBudgets(a), newTasks(a), newLag(a), newDashboards(a), newDoctor(a), newReplay(a), newDLQ(a), newSpend(a), newSweep(a), newLLMSim(a), newConfig(a),
		newVersion(a), newCompletion(a))
	root.CompletionOptions.DisableDefaultCmd = true // ours has an example
	root.PersistentFlags().String("config", "", "YAML `file` with settings (environment: FENCEPOST_CONFIG)")
	cli.Settings(root.PersistentFlags(), logFlags)
	root.SetHelpCommand(newHelp(root))
	root.SetFlagErrorFunc(flagError)
	return root
}

// group makes a command of subcommands: alone it prints its help, and a word that is none of them is a usage error,
// which cobra would answer with help and exit code 0.
func group(c *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	c.AddCommand(subcommands...)
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0])
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return c
}

func unknownCommand(parent *cobra.Command, word string) error {
	var names []string
	for _, sub := range parent.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	hint := "one of: " + strings.Join(names, ", ")
	if near := cli.Nearest(word, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", parent.CommandPath()+" "+near)
	}
	return cli.Usage(hint, "unknown command %q for %q", word, parent.CommandPath())
}

// arguments takes exactly the arguments named.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return cli.Usage("usage: "+cmd.UseLine(), "%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return cli.Usage("usage: "+cmd.UseLine(), "unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	hint := cmd.CommandPath() + " --help"
	if unknown, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := cli.Nearest(unknown, names); near != "" {
			hint = "did you mean --" + near + "?"
		}
	}
	return cli.Usage(hint, "%s", text)
}

func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Show the help of a command",
		Example: "  fencepost help dev",
		RunE: func(_ *cobra.Command, args []string) error {
			target, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				if target == nil {
					target = root
				}
				word := args[len(args)-1]
				if len(rest) > 0 {
					word = rest[0]
				}
				return unknownCommand(target, word)
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
	}
}

// load fills the command's settings from environment and file.
func (a *app) load(cmd *cobra.Command) error {
	path, _ := cmd.Flags().GetString("config")
	if path == "" {
		path, _ = a.LookupEnv(cli.Env("config"))
	}
	var err error
	a.settings, err = cli.Load(cmd.Flags(), a.known(), a.LookupEnv, path)
	return err
}

// known lists the settings of all verbs.
func (a *app) known() []string {
	var names []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		names = append(names, cli.Names(c.Flags())...)
		names = append(names, cli.Names(c.PersistentFlags())...)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(a.root)
	slices.Sort(names)
	return slices.Compact(names)
}

// outputFlag adds -o.
func outputFlag(cmd *cobra.Command) *cli.Format {
	f := cli.Table
	cmd.Flags().VarP(&f, "output", "o", "output `format`: "+strings.Join(cli.Formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(cli.Formats, cobra.ShellCompDirectiveNoFileComp))
	return &f
}

// note writes a line for a person, never data.
func (a *app) note(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Err, format+"\n", args...)
}
