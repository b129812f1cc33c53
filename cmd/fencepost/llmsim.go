package main

import (
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/dev"
	"github.com/fencepost/fencepost/llm/sim"
)

func newLLMSim(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "llm-sim",
		Short: "Run the simulated model as a process of its own",
		Long: `Run the simulated model: a server of OpenAI's Chat Completions and Responses and of Anthropic's Messages that costs
nothing. PUT /sim/rules scripts latency and failures, PUT /sim/settings what is stored, billed and replayed; GET
/sim/requests lists every request that arrived, GET /sim/lookups those that asked for an earlier answer, GET /sim/totals
counts both.`,
		Example: "  fencepost llm-sim --listen 127.0.0.1:9000 --ledger requests.jsonl\n  fencepost llm-sim --listen 127.0.0.1:9000 --latency 1.5s",
		Args:    arguments(),
	}
	listen := cmd.Flags().String("listen", "127.0.0.1:9000", "`address`; port 0 takes any free one")
	ledger := cmd.Flags().String("ledger", "", "`file` that keeps the list of requests over a restart")
	latency := cmd.Flags().Duration("latency", 0, "time an answer takes when no rule says otherwise")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		if *latency < 0 || *latency > time.Hour {
			return cli.Usage("", "--latency: %s is not within 0s and 1h", *latency)
		}
		l, err := net.Listen("tcp", *listen)
		if err != nil {
			return cli.Fail("choose another address with --listen; 127.0.0.1:0 takes any free port", "%w", err)
		}
		model, err := dev.ServeModel(l, sim.Config{Ledger: *ledger, Latency: *latency, Logger: a.logger(cmd)})
		if err != nil {
			return err
		}
		// Data, not words: whoever chose port 0 needs it.
		_, _ = fmt.Fprintln(a.Out, model.URL())
		<-cmd.Context().Done()
		return model.Close()
	}
	return cmd
}
