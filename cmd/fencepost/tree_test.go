package main

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
)

func tree() *cobra.Command {
	return newRoot(&app{Streams: &cli.Streams{Out: io.Discard, Err: io.Discard, LookupEnv: func(string) (string, bool) { return "", false }}})
}

func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		walk(sub, visit)
	}
}

var flagWord = regexp.MustCompile(`--[a-z][a-z-]*`)

// TestEveryCommandExplainsItself: each has a one-line summary, each leaf an example that names the command and flags it
// really has.
func TestEveryCommandExplainsItself(t *testing.T) {
	walk(tree(), func(c *cobra.Command) {
		path := c.CommandPath()
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: Short %q: want one line without a full stop", path, c.Short)
		}
		if c.HasSubCommands() {
			if c.RunE == nil || c.Args == nil {
				t.Errorf("%s: a group must judge unknown subcommands itself", path)
			}
			return
		}
		if !strings.Contains(c.Example, path) && c.Name() != "help" {
			t.Errorf("%s: no example", path)
		}
		for _, line := range strings.Split(c.Example, "\n") {
			if !strings.Contains(line, path) {
				continue
			}
			for _, word := range flagWord.FindAllString(line, -1) {
				if name := strings.TrimPrefix(word, "--"); c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
					t.Errorf("%s: example has --%s, which is no flag of it", path, name)
				}
			}
		}
	})
}

// TestSettingsMeanTheSameEverywhere: a setting that several verbs have has one help text, one default and one type, so
// that `config show` speaks for all of them; and it shows every one.
func TestSettingsMeanTheSameEverywhere(t *testing.T) {
	root := tree()
	show, _, err := root.Find([]string{"config", "show"})
	if err != nil {
		t.Fatal(err)
	}
	show.InheritedFlags() // merges the persistent ones
	shown := cli.Names(show.Flags())
	walk(root, func(c *cobra.Command) {
		for _, name := range cli.Names(c.Flags()) {
			if !slices.Contains(shown, name) {
				t.Errorf("%s: setting %s is not in `config show`", c.CommandPath(), name)
				continue
			}
			a, b := c.Flags().Lookup(name), show.Flags().Lookup(name)
			if a.Usage != b.Usage || a.DefValue != b.DefValue || a.Value.Type() != b.Value.Type() {
				t.Errorf("%s: setting %s differs from the one in `config show`", c.CommandPath(), name)
			}
		}
	})
}

// TestInterfaceFlags: the names that are fixed for users and scripts.
func TestInterfaceFlags(t *testing.T) {
	root := tree()
	for path, names := range map[string][]string{
		"run": {"roles", "config", "kafka-brokers", "kafka-topic", "kafka-group", "kafka-tls", "kafka-sasl", "postgres-url", "offsets", "order",
			"max-in-flight", "lease", "max-attempts", "deadline", "drain-timeout", "retention", "llm-provider", "llm-base-url", "llm-model",
			"llm-api-key-file", "listen", "admin-listen", "log-format", "log-level"},
		"dev":           {"data-dir", "output", "kafka-brokers", "postgres-url", "llm-base-url", "listen", "admin-listen"},
		"topics create": {"partitions"},
		"keys create":   {"workspace", "name"},
		"llm-sim":       {"listen", "ledger"},
	} {
		c, _, err := root.Find(strings.Fields(path))
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		add := func(f *pflag.Flag) { have = append(have, f.Name) }
		c.Flags().VisitAll(add)
		c.InheritedFlags().VisitAll(add)
		for _, name := range names {
			if !slices.Contains(have, name) {
				t.Errorf("fencepost %s has no --%s", path, name)
			}
		}
	}
}
