package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
)

func main() {
	os.Exit(Main(cli.System(), os.Args[1:]))
}

// errSignal is the cause of a stop that was asked for.
var errSignal = errors.New("asked to stop")

// oneSignal: timeout(1) and some supervisors signal the process and then its group, which is one wish and not two.
const oneSignal = 100 * time.Millisecond

// Main runs one command line and returns the exit code. The first SIGINT or SIGTERM ends the command's context, which
// drains; the second ends the process at once.
func Main(streams *cli.Streams, args []string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	finished := make(chan struct{})
	defer close(finished)
	go func() {
		var first time.Time
		for {
			select {
			case s := <-signals:
				if first.IsZero() {
					first = time.Now()
				} else if time.Since(first) > oneSignal {
					_, _ = fmt.Fprintln(streams.Err, "Error: stopped at once by a second signal")
					os.Exit(cli.Failed)
				}
				cancel(fmt.Errorf("%w by signal %s", errSignal, s))
			case <-finished:
				return
			}
		}
	}()
	err := execute(ctx, streams, args)
	cli.Report(streams.Err, err)
	return cli.ExitCode(err)
}
