package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/dev"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/telemetry"
	"github.com/fencepost/fencepost/tasks/postgres/embedded"
)

// devWorkspace is the workspace of dev's API key.
const devWorkspace = "dev"

// devSettings are dev's own.
type devSettings struct{ dataDir, download string }

func (d *devSettings) flags(f *pflag.FlagSet) {
	f.StringVar(&d.dataDir, "data-dir", "", "`folder` that keeps Kafka and Postgres; without it the data goes with the process")
	f.StringVar(&d.download, "postgres-download-url", "", "Maven repository `URL` to fetch Postgres from where the machine has none (default: Maven Central)")
}

// devReady is the one line on stdout.
type devReady struct {
	API       string `json:"api"`
	Admin     string `json:"admin"`
	Kafka     string `json:"kafka"`
	Postgres  string `json:"postgres"`
	LLM       string `json:"llm"`
	APIKey    string `json:"api_key"`
	Workspace string `json:"workspace"`
	Topic     string `json:"topic"`
	Group     string `json:"group"`
}

// devCommand is a run of dev.
type devCommand struct {
	a        *app
	log      *slog.Logger
	data     devSettings
	kafka    kafkaSettings
	postgres postgresSettings
	llm      llmSettings
	node     nodeSettings

	dir    *dev.Dir
	broker *dev.Kafka
	server *embedded.Server
	model  *dev.Model
	ready  devReady
}

func newDev(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process, with nothing to install",
		Long: `Run everything in one process: an in-process Kafka, a private Postgres, a simulated model, the API, the dispatcher,
the worker and the admin page. Any of the three parts can be replaced by a real one: --kafka-brokers, --postgres-url,
--llm-base-url (or --llm-provider openai).

With --data-dir everything acknowledged is on disk and the same command goes on where it was, also after kill -9.
With -o json stdout gets one line once everything is ready, and nothing else.`,
		Example: "  fencepost dev\n  fencepost dev --data-dir ~/.fencepost -o json\n  fencepost dev --kafka-brokers localhost:9092",
		Args:    arguments(),
	}
	d := &devCommand{a: a}
	settingsFor(cmd, d.data.flags, d.kafka.flags, d.postgres.flags, d.llm.flags, d.node.flags)
	output := cli.NewChoice("text", "json")
	cmd.Flags().VarP(output, "output", "o", "what is printed once everything is ready")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		if err := d.node.check(); err != nil {
			return err
		}
		d.log = a.logger(cmd)
		return d.run(cmd.Context(), output.String())
	}
	return cmd
}

// run starts the parts, then the node, and takes them down in the opposite order.
func (d *devCommand) run(ctx context.Context, output string) (err error) {
	d.dir, err = dev.Open(d.data.dataDir)
	if err != nil {
		switch {
		case errors.Is(err, dev.ErrLocked):
			return cli.Refuse("stop the other process, or choose another --data-dir", "%w", err)
		case errors.Is(err, dev.ErrFormat):
			return cli.Refuse("choose another --data-dir", "%w", err)
		}
		return cli.Fail("choose another folder with --data-dir", "data directory: %w", err)
	}
	defer func() { err = errors.Join(err, d.stopParts(), d.dir.Close()) }()
	config, err := d.startParts(ctx)
	if err != nil {
		return d.stopped(ctx, err)
	}
	config.Traces, config.TracesEndpoint = telemetry.Configured(d.node.otelEndpoint, d.a.LookupEnv), d.node.otelEndpoint
	n, err := node.Start(ctx, config)
	if err != nil {
		return d.stopped(ctx, explain(err))
	}
	if err = d.await(ctx, n); err == nil {
		d.ready.API, d.ready.Admin = "http://"+n.APIAddress(), "http://"+n.AdminAddress()
		err = d.announce(output)
	}
	if err != nil {
		n.Stop()
		return d.stopped(ctx, err)
	}

	// Without its Postgres the node could only wait for ever.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if d.server != nil {
		go func() {
			select {
			case <-d.server.Done():
				cancel(d.server.Err())
			case <-ctx.Done():
			}
		}()
	}
	err = n.Run(ctx)
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, errSignal) {
		err = cause
	}
	return err
}

// stopped is nil when the failure is only that we were asked to stop.
func (d *devCommand) stopped(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSignal) {
		return nil
	}
	return err
}

// await waits until the worker is in its group.
func (d *devCommand) await(ctx context.Context, n *node.Node) error {
	deadline := time.Now().Add(d.node.start)
	for {
		err := n.Ready(ctx)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %s: %w", d.node.start, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-n.Failed():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// announce says that everything is ready: one line for programs, a page for people.
func (d *devCommand) announce(output string) error {
	if output == "json" {
		return json.NewEncoder(d.a.Out).Encode(d.ready)
	}
	r := d.ready
	where := d.data.dataDir
	if where == "" {
		where = "temporary; --data-dir DIR keeps it"
	}
	d.a.note(`
Fencepost is ready.

  API       %s
  Admin     %s
  Kafka     %s
  Postgres  %s
  Model     %s
  Data      %s

Send a message. Send it again: the same task, and still one call to the model.

  curl -isS %s/v1/conversations/demo/messages \
    -H 'Authorization: Bearer %s' \
    -H 'Idempotency-Key: demo-1' -H 'Content-Type: application/json' \
    -d '{"content":"Hello!"}'

Read the conversation:

  curl -sS %s/v1/conversations/demo/messages -H 'Authorization: Bearer %s'

Use OpenAI's SDKs, with a header Idempotency-Key:

  export OPENAI_BASE_URL=%s/v1 OPENAI_API_KEY=%s

All routes: %s/docs

Ctrl-C stops.
`, r.API, r.Admin, r.Kafka, r.Postgres, r.LLM, where, r.API, r.APIKey, r.API, r.APIKey, r.API, r.APIKey, r.API)
	return nil
}
