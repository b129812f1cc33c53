package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

// asCommand makes the test binary be the command, for tests that start and kill it.
const asCommand = "FENCEPOST_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	command := func() { os.Exit(Main(cli.System(), os.Args[1:])) }
	if os.Getenv(asCommand) != "" {
		command()
	}
	testscript.Main(m, map[string]func(){"fencepost": command})
}

// TestScripts runs what a person types, and compares what comes back. Scripts find POSTGRES_URL, an empty database of
// their own, and KAFKA, a broker of their own without topics.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
			if err != nil {
				return err
			}
			env.Defer(cluster.Close)
			env.Setenv("KAFKA", cluster.ListenAddrs()[0])
			env.Setenv("POSTGRES_URL", pgtest.Empty(env.T().(testing.TB)))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code},
	})
}

// code runs a command and wants its exit code: code 2 fencepost nosuch. Any will do where it depends on the machine.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command...")
	}
	want := 0
	if args[0] != "any" {
		var err error
		want, err = strconv.Atoi(args[0])
		ts.Check(err)
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want && args[0] != "any" {
		ts.Fatalf("%s: exit code %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}
