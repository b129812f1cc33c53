package dev

import (
	"context"
	"log/slog"

	"github.com/fencepost/fencepost/tasks/postgres/embedded"
)

// StartPostgres starts the private Postgres on the directory, at the port it had there last time if that is free.
func StartPostgres(ctx context.Context, d *Dir, download string, log *slog.Logger) (*embedded.Server, error) {
	server, err := embedded.Start(ctx, embedded.Config{
		DataDir:     d.Path("postgres"),
		Port:        d.Port("postgres"),
		AnyPort:     true,
		NoFsync:     d.Temporary(),
		DownloadURL: download,
		Logger:      log,
	})
	if err != nil {
		return nil, err
	}
	if err := d.RememberPort("postgres", server.Port()); err != nil {
		_ = server.Stop(ctx)
		return nil, err
	}
	return server, nil
}
