package dev

import (
	"context"
	"log/slog"
	"net/url"
	"strconv"

	"github.com/fencepost/fencepost/tasks/postgres/embedded"
)

// StartPostgres starts the private Postgres on the directory, at the port it had there last time if that is free.
func StartPostgres(ctx context.Context, d *Dir, download string, log *slog.Logger) (*embedded.Server, error) {
	port := d.Port("postgres")
	if port != 0 && !free(port) {
		// Often it is the server that a killed dev left, which Start stops; it then has the port for itself again.
		port = 0
	}
	server, err := embedded.Start(ctx, embedded.Config{
		DataDir:     d.Path("postgres"),
		Port:        port,
		NoFsync:     d.Temporary(),
		DownloadURL: download,
		Logger:      log,
	})
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(server.URL("postgres"))
	if err == nil {
		port, err = strconv.Atoi(u.Port())
	}
	if err == nil {
		err = d.RememberPort("postgres", port)
	}
	if err != nil {
		_ = server.Stop(ctx)
		return nil, err
	}
	return server, nil
}
