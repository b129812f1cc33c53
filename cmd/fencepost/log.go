package main

import (
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/cli"
)

func logFlags(f *pflag.FlagSet) {
	f.Var(cli.NewChoice("auto", "text", "json"), "log-format", "logs on stderr; auto is text on a terminal, JSON elsewhere")
	f.Var(cli.NewChoice("info", "debug", "warn", "error"), "log-level", "least level that is logged")
}

// logger makes the process's logger from the settings.
func (a *app) logger(cmd *cobra.Command) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cmd.Flags().Lookup("log-level").Value.String())) // checked by the flag
	format := cmd.Flags().Lookup("log-format").Value.String()
	if format == "json" || format == "auto" && !a.ErrTTY {
		return slog.New(slog.NewJSONHandler(a.Err, &slog.HandlerOptions{Level: level}))
	}
	if a.ErrTTY {
		return slog.New(tint.NewTextHandler(a.Err, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !a.Color}))
	}
	return slog.New(slog.NewTextHandler(a.Err, &slog.HandlerOptions{Level: level}))
}
