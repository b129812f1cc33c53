package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
	"github.com/fencepost/fencepost/migrations"
)

func newMigrate(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "migrate", Short: "Bring the database's schema up to date, or look at it"},
		newMigrateUp(a), newMigrateStatus(a))
}

func newMigrateUp(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Apply the migrations that the database lacks",
		Long: `Apply the migrations that the database lacks, and print them. Several at once wait for each other. Not through a
transaction pooler: the wait is a lock of the session.`,
		Example: "  fencepost migrate up --postgres-url postgres://fencepost@localhost:5432/fencepost",
		Args:    arguments(),
	}
	var postgres postgresSettings
	settingsFor(cmd, postgres.flags)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		if err := postgres.check(); err != nil {
			return err
		}
		applied, err := migrations.Up(cmd.Context(), postgres.url)
		if len(applied) > 0 || err == nil {
			if perr := printMigrations(a, *output, applied); perr != nil && err == nil {
				err = perr
			}
		}
		if err != nil {
			return cli.Fail("check --postgres-url (or FENCEPOST_POSTGRES_URL); what was applied stays, and the command can be repeated", "%w", err)
		}
		if len(applied) == 0 {
			a.note("the schema is up to date")
		}
		return nil
	}
	return cmd
}

func newMigrateStatus(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "List the migrations and whether the database has them",
		Long:    "List the migrations and whether the database has them. The exit code is 3 when this program and the database do not fit.",
		Example: "  fencepost migrate status",
		Args:    arguments(),
	}
	var postgres postgresSettings
	settingsFor(cmd, postgres.flags)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.load(cmd); err != nil {
			return err
		}
		store, err := postgres.open(cmd.Context())
		if err != nil {
			return err
		}
		defer store.Close()
		list, err := migrations.Status(cmd.Context(), store.Pool())
		if err != nil {
			return err
		}
		if err := printMigrations(a, *output, list); err != nil {
			return err
		}
		if err := migrations.Check(cmd.Context(), store.Pool()); err != nil {
			if errors.Is(err, migrations.ErrNewer) {
				return cli.Refuse("", "%w", err)
			}
			return cli.Refuse("fencepost migrate up", "%w", err)
		}
		return nil
	}
	return cmd
}

// migration is the JSON form.
type migration struct {
	Version   int64  `json:"version"`
	Name      string `json:"name,omitempty"`
	AppliedAt string `json:"applied_at,omitempty"`
	Status    string `json:"status"` // applied, pending, unknown
}

func printMigrations(a *app, f cli.Format, versions []migrations.Version) error {
	list := make([]migration, len(versions))
	for i, v := range versions {
		list[i] = migration{Version: v.Number, Name: v.Name, Status: "pending"}
		if !v.AppliedAt.IsZero() {
			list[i].AppliedAt, list[i].Status = cli.Time(v.AppliedAt), "applied"
		}
		if v.Name == "" {
			list[i].Status = "unknown" // of a newer program
		}
	}
	return cli.List(a.Out, f, "migrations", list, []cli.Column[migration]{
		{Title: "MIGRATION", Text: func(m migration) string {
			if m.Name == "" {
				return cli.Number(m.Version)
			}
			return m.Name
		}},
		{Title: "STATUS", Text: func(m migration) string { return m.Status }},
		{Title: "APPLIED", Text: func(m migration) string { return m.AppliedAt }},
	})
}
