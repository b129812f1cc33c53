package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/telemetry"
)

// roleSettings are the roles of a process.
type roleSettings struct{ roles []string }

func (r *roleSettings) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&r.roles, "roles", []string{string(node.API), string(node.Dispatcher), string(node.Worker)}, "`roles` of this process")
}

func newRun(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run roles against your own Kafka, Postgres and provider",
		Long: `Run the API, the dispatcher and the worker, or some of them, against your own Kafka, Postgres and provider. The
database must be migrated (fencepost migrate up) and the topics must exist (fencepost topics create).

SIGTERM and SIGINT drain: nothing new is taken, started work may end, what does not is handed back; the exit code is 0.
A second signal stops at once. The admin listener answers /readyz, /healthz, /metrics and /debug/pprof/.`,
		Example: "  fencepost run --kafka-brokers localhost:9092 --postgres-url postgres://localhost/fencepost --llm-base-url http://localhost:9000\n  fencepost run --roles worker --config /etc/fencepost.yaml",
		Args:    arguments(),
	}
	var (
		roles    roleSettings
		kafka    kafkaSettings
		postgres postgresSettings
		llm      llmSettings
		settings nodeSettings
	)
	settingsFor(cmd, roles.flags, kafka.flags, postgres.flags, llm.flags, settings.flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		config := settings.config(llm.defaultModel())
		var err error
		if config.Roles, err = node.ParseRoles(roles.roles); err != nil {
			return cli.Usage("", "--roles: %v", err)
		}
		if err := settings.check(); err != nil {
			return err
		}
		if err := postgres.check(); err != nil {
			return err
		}
		config.PostgresURL = postgres.url
		if config.Prices, err = llm.prices(); err != nil {
			return err
		}
		for _, role := range config.Roles {
			if role == node.API {
				config.Reserve = llm.reserve(config.Prices, settings.historyTokens)
				if config.Templates, err = promptTemplates(settings.promptTemplates); err != nil {
					return err
				}
			}
			if role == node.Worker {
				if config.Provider, err = llm.open(a); err != nil {
					return err
				}
				if config.Gate, err = llm.gate(); err != nil {
					return err
				}
			}
		}
		if len(config.Roles) > 1 || config.Roles[0] != node.API {
			if config.Kafka, err = kafka.read(a); err != nil {
				return err
			}
		}
		config.Logger, config.Progress = a.logger(cmd), a.note
		config.Traces, config.TracesEndpoint = telemetry.Configured(settings.otelEndpoint, a.LookupEnv), settings.otelEndpoint
		n, err := node.Start(cmd.Context(), config)
		if err != nil {
			if cmd.Context().Err() != nil {
				return nil // asked to stop before it had begun
			}
			return explain(err)
		}
		config.Logger.Info("running", "roles", strings.Join(roles.roles, ","), "api", n.APIAddress(), "admin", n.AdminAddress(), "version", config.Version)
		err = n.Run(cmd.Context())
		config.Logger.Info("stopped")
		return err
	}
	return cmd
}
