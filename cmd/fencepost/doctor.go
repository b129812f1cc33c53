package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/llm/anthropic"
)

// doctorCommand is one `fencepost doctor`.
type doctorCommand struct {
	a        *app
	roles    roleSettings
	kafka    kafkaSettings
	postgres postgresSettings
	llm      llmSettings
	node     nodeSettings
	timeout  time.Duration
}

func newDoctor(a *app) *cobra.Command {
	d := &doctorCommand{a: a}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the settings, Kafka, Postgres and the provider, and say what to change",
		Long: `Check the settings against one another, Kafka (brokers, topics, the group), Postgres and the provider, and say of
each thing what was found and what to change. Give it the settings that "fencepost run" gets, in the same ways; the
roles decide what is looked at. What cannot be reached fails, and the rest is looked at all the same.

Nothing is changed and nothing is paid for: the provider is connected to, and sent nothing.

  ok       it fits
  unknown  it could not be looked at
  warn     it works, and something is worse than it has to be
  fail     it does not work, or what was promised may be lost

Exit code 1: something fails.`,
		Example: `  fencepost doctor --kafka-brokers localhost:9092 --postgres-url postgres://localhost/fencepost
  fencepost doctor --roles worker --llm-provider openai --llm-model gpt-5-mini -o json`,
		Args: arguments(),
	}
	settingsFor(cmd, d.roles.flags, d.kafka.flags, d.postgres.flags, d.llm.flags, d.node.flags)
	cmd.Flags().DurationVar(&d.timeout, "timeout", 10*time.Second, "longest look at one part; they are looked at side by side")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		if d.timeout < 100*time.Millisecond {
			return cli.Usage("", "--timeout: %s is too short, the least is 100ms", d.timeout)
		}
		report := doctor.Run(cmd.Context(), d.timeout, d.parts(cmd)...)
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		if err := showDoctor(a, *output, report); err != nil {
			return err
		}
		return judgeReport(report)
	}
	return cmd
}

// judgeReport is the exit code. A warning is for a person, not for a script.
func judgeReport(r doctor.Report) error {
	failed := 0
	for _, c := range r.Checks {
		if c.State == doctor.Fail {
			failed++
		}
	}
	if failed > 0 {
		return cli.Fail("CHANGE says what to do; then run it again", "%d of %d checks failed", failed, len(r.Checks))
	}
	return nil
}

// parts are what the roles stand on.
func (d *doctorCommand) parts(cmd *cobra.Command) []doctor.Part {
	roles, err := node.ParseRoles(d.roles.roles)
	if err != nil {
		roles = node.AllRoles
	}
	s := d.settings(roles)
	s.Hint, s.Invalid = reason(errors.Join(err, d.node.check()))
	parts := []doctor.Part{doctor.SettingsPart(s)}
	if len(roles) > 1 || roles[0] != node.API {
		k, err := d.kafka.read(d.a)
		hint, invalid := reason(err)
		log := d.a.logger(cmd)
		if !log.Enabled(cmd.Context(), slog.LevelDebug) {
			log = slog.New(slog.DiscardHandler) // the finding says it
		}
		parts = append(parts, doctor.KafkaPart(k, s, invalid, hint, log))
	}
	parts = append(parts, doctor.PostgresPart(d.postgres.url, s))
	if slices.Contains(roles, node.Worker) {
		parts = append(parts, doctor.ProviderPart(d.provider()))
	}
	return parts
}

func (d *doctorCommand) settings(roles []node.Role) doctor.Settings {
	n := &d.node
	return doctor.Settings{
		Roles: roles, AdminListen: n.adminListen,
		Lease: n.lease, Session: n.session, CallTimeout: n.callTimeout, Deadline: n.deadline,
		Drain: n.drain, Stop: n.stop, FirstToken: d.llm.firstToken, Idle: d.llm.idle, Stream: d.llm.stream,
		Retention: n.retention, TaskRetention: n.sweep.taskRetention,
		Recovery: d.llm.recovery.String(), RecoveryRetention: d.llm.retention,
		MaxInFlight: n.maxInFlight, MaxAttempts: n.maxAttempts,
		OffsetsInPostgres: n.offsets.String() == "postgres", Protocol: n.protocol.String(),
	}
}

func (d *doctorCommand) provider() doctor.Provider {
	p := doctor.Provider{Name: d.llm.ledgerName(), BaseURL: d.llm.address(), Model: d.llm.defaultModel()}
	prices, priceErr := d.llm.prices()
	p.Prices = prices
	_, err := d.llm.open(d.a)
	_, gateErr := d.llm.gate()
	p.Hint, p.Invalid = reason(cmp.Or(err, gateErr, priceErr))
	if key, from, err := cli.Secret("llm-api-key", d.llm.apiKeyFile, d.a.LookupEnv); err == nil && key != "" {
		p.Key = from.Source
	}
	return p
}

// address is what is called.
func (l *llmSettings) address() string {
	switch l.provider.String() {
	case "openai":
		return cmp.Or(l.baseURL, openAIBaseURL)
	case "anthropic":
		return cmp.Or(l.baseURL, anthropic.BaseURL)
	}
	return l.baseURL
}

// reason takes an error apart into what to do and what is wrong.
func reason(err error) (hint string, wrong error) {
	var e *cli.Error
	if errors.As(err, &e) {
		return e.Hint, e.Err
	}
	return "", err
}

func showDoctor(a *app, f cli.Format, r doctor.Report) error {
	if f == cli.JSON || f == cli.YAML {
		return cli.One(a.Out, f, r, nil)
	}
	err := cli.List(a.Out, f, "checks", r.Checks, []cli.Column[doctor.Check]{
		{Title: "PART", Text: func(c doctor.Check) string { return c.Part }},
		{Title: "CHECK", Text: func(c doctor.Check) string { return c.Name }},
		{Title: "STATE", Text: func(c doctor.Check) string { return string(c.State) }},
		{Title: "FINDING", Text: func(c doctor.Check) string { return c.Finding }},
	})
	if err != nil || f == cli.JSONL {
		return err
	}
	// In a column of their own they would make lines that nobody can read.
	for _, c := range r.Checks {
		if c.Change != "" {
			if _, err := fmt.Fprintf(a.Out, "CHANGE %s %s (%s): %s\n", c.Part, c.Name, c.State, c.Change); err != nil {
				return err
			}
		}
	}
	return nil
}
