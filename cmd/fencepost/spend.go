package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/usage"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres"
)

const (
	maxUnknown  = 1000      // attempts that are listed
	periodSlack = time.Hour // by which the two sides may differ on when a request was
)

func newSpend(a *app) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "spend",
		Short: "Sum the ledger of what was spent",
		Long: `Sum the ledger: what was spent by day, model, document or conversation, with what is unknown, what was paid for answers
that were not accepted, and what replays have saved. A day is that on which an attempt began, in UTC; attempts that are
under way are in no sum yet.`,
		Example: "  fencepost spend --by document --workspace acme --from 2026-11-01 --to 2026-12-01\n  fencepost spend --by model --document 42 -o csv",
	}, newSpendReconcile(a))
	new(spendSums).command(a, cmd)
	return cmd
}

// reconciliation is the JSON form.
type reconciliation struct {
	From        string         `json:"from"`
	To          string         `json:"to"`
	Provider    string         `json:"provider,omitempty"` // whose attempts were read; empty: of all
	By          string         `json:"by"`
	Export      usageSide      `json:"export"`
	Ledger      usageSide      `json:"ledger"`
	Differences []usageDiffers `json:"differences"`
	LeftOut     int            `json:"differences_left_out,omitempty"`
	OffTokens   int64          `json:"off_tokens"`
	Tolerance   int64          `json:"tolerance"`
	Unknown     []unknownUsage `json:"unknown_attempts"` // the first 1000
}

type usageSide struct {
	Requests          *int64 `json:"requests"` // null: not said
	InputTokens       int64  `json:"input_tokens"`
	CachedInputTokens *int64 `json:"cached_input_tokens"`
	OutputTokens      int64  `json:"output_tokens"`
	Amount            string `json:"amount,omitempty"` // only where every request has one
}

type usageDiffers struct {
	Kind            usage.Kind `json:"kind"`
	Day             string     `json:"day"`
	Model           string     `json:"model"`
	RequestID       string     `json:"request_id,omitempty"`
	Task            uuid.UUID  `json:"task,omitzero"`
	Attempt         int        `json:"attempt,omitempty"`
	Export          *usageSide `json:"export"` // null: it has none
	Ledger          *usageSide `json:"ledger"`
	OffTokens       int64      `json:"off_tokens"`
	UnknownAttempts int64      `json:"unknown_attempts,omitempty"`
}

type unknownUsage struct {
	Task      uuid.UUID `json:"task"`
	Attempt   int       `json:"attempt"`
	StartedAt string    `json:"started_at"`
	Model     string    `json:"model"`
}

func newSpendReconcile(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reconcile FILE",
		Short: "Compare the ledger with a provider's usage export",
		Long: `Compare what the ledger says was used with a provider's export of it, and name what differs. FILE (- for standard
input) is a CSV with a header (date or start_time, model, input_tokens, output_tokens; requests, cached_input_tokens,
amount, request_id where there are), or pages of OpenAI's organization usage of completions or of Anthropic's usage
report of messages, grouped by model, in buckets of a day or less. Input tokens are all of them, cached or not.

With request ids, requests are compared one by one; without them, the sums of each UTC day and model. Attempts of which
nothing was heard are listed: they may explain what only the export has. Amounts are shown and not compared. Exit code 5
says that more tokens differ than --tolerance.`,
		Example: "  fencepost spend reconcile usage.csv --from 2026-11-01 --to 2026-12-01 -o json",
		Args:    arguments("FILE"),
	}
	var store postgresSettings
	settingsFor(cmd, store.flags)
	var r reconcile
	cmd.Flags().StringVar(&r.provider, "provider", "", "attempts of this `provider` only, as the ledger names it (default: the one whose form FILE has, or all)")
	cmd.Flags().Var((*moment)(&r.from), "from", "begin with this `time`, like 2026-11-30 (default: FILE's first day)")
	cmd.Flags().Var((*moment)(&r.to), "to", "end before this `time` (default: the end of FILE's last day)")
	cmd.Flags().Int64Var(&r.tolerance, "tolerance", 0, "`tokens` that may differ in all")
	cmd.Flags().DurationVar(&r.reach, "longest-deadline", 24*time.Hour, "no task has had more `time` than this until its deadline")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		if r.tolerance < 0 || r.reach < 0 {
			return cli.Usage("", "--tolerance and --longest-deadline cannot be negative")
		}
		export, err := a.readExport(args[0])
		if err != nil {
			return err
		}
		if err := r.fit(export); err != nil {
			return err
		}
		s, err := store.open(cmd.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		report, unknown, err := r.run(cmd.Context(), s, export)
		if err != nil {
			return storeError(err)
		}
		if err := a.showReconciliation(*output, r.show(report, unknown)); err != nil {
			return err
		}
		if export.Partial {
			a.note("%s says that there are more pages than it has", args[0])
		}
		if report.Off > r.tolerance {
			return &cli.Error{Code: cli.Threshold, Hint: r.hint(len(unknown)), Err: r.exceeded(report)}
		}
		return nil
	}
	return cmd
}

// readExport reads a file, or standard input.
func (a *app) readExport(name string) (usage.Export, error) {
	in := io.Reader(a.In)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
				err = pe.Err
			}
			return usage.Export{}, cli.Usage("", "%s: %w", name, err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	export, err := usage.Read(in)
	if err != nil {
		return usage.Export{}, cli.Fail("fencepost spend reconcile --help says which forms can be read", "%s: %w", name, err)
	}
	return export, nil
}

// moment is a flag's value: a UTC day, or an instant.
type moment time.Time

func (m *moment) String() string {
	if time.Time(*m).IsZero() {
		return ""
	}
	return time.Time(*m).Format(time.RFC3339)
}

func (m *moment) Type() string { return "time" }

func (m *moment) Set(word string) error {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, word); err == nil {
			*m = moment(t.UTC())
			return nil
		}
	}
	return errors.New("want a UTC day like 2026-11-30, or a time like 2026-11-30T12:00:00Z")
}

// reconcile is what was asked for.
type reconcile struct {
	provider  string
	from, to  time.Time
	tolerance int64
	reach     time.Duration
}

// fit fills in what the export says.
func (r *reconcile) fit(e usage.Export) error {
	from, to := e.Period()
	if r.from.IsZero() {
		r.from = from
	}
	if r.to.IsZero() {
		r.to = to
	}
	if !r.from.Before(r.to) {
		return cli.Usage("", "--from %s is not before --to %s", r.from.Format(time.RFC3339), r.to.Format(time.RFC3339))
	}
	whole := func(t time.Time) bool { return t.Equal(t.Truncate(24 * time.Hour)) }
	if !e.ByRequest() && !(whole(r.from) && whole(r.to)) {
		return cli.Usage("", "--from and --to have to be days where the export has no request ids")
	}
	if r.provider == "" {
		r.provider = e.Provider
	}
	return nil
}

func (r *reconcile) run(ctx context.Context, s *postgres.Store, e usage.Export) (usage.Report, []tasks.AttemptUsage, error) {
	period := tasks.Period{From: r.from, To: r.to, Provider: r.provider, Reach: r.reach}
	unknown, err := s.UnknownUsage(ctx, period, maxUnknown)
	if err != nil {
		return usage.Report{}, nil, err
	}
	if !e.ByRequest() {
		sums, err := s.UsageByDay(ctx, period)
		if err != nil {
			return usage.Report{}, nil, err
		}
		return usage.CompareDays(usage.Within(e.Records, r.from, r.to), sums), unknown, nil
	}
	requests := usage.NewRequests(e.Records, r.from, r.to)
	period.From, period.To = period.From.Add(-periodSlack), period.To.Add(periodSlack)
	err = s.EachUsage(ctx, period, func(a tasks.AttemptUsage) error {
		requests.Add(a)
		return nil
	})
	if err != nil {
		return usage.Report{}, nil, err
	}
	return requests.Report(), unknown, nil
}
