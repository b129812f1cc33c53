package migrations

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/fencepost/fencepost/tasks/postgres/dsn"
)

// Up applies what is pending at the database of url and returns it. Concurrent calls wait for each other by a session
// lock, so url must not go through a transaction pooler. A failure to connect is tasks.ErrUnavailable.
func Up(ctx context.Context, url string) ([]Version, error) {
	cfg, err := dsn.Parse(url)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*cfg.ConnConfig)
	defer func() { _ = db.Close() }()
	if err := db.PingContext(ctx); err != nil {
		return nil, dsn.Unavailable(cfg, err)
	}
	// Once a second for ten minutes: another process may be in the middle of a long migration.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 600))
	if err != nil {
		return nil, fmt.Errorf("migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	results, err := provider.Up(ctx)
	applied := make([]Version, 0, len(results))
	for _, r := range results {
		applied = append(applied, Version{Number: r.Source.Version, Name: r.Source.Path, AppliedAt: time.Now()})
	}
	if err != nil {
		return applied, fmt.Errorf("migrate %s: %w", dsn.Address(cfg), err)
	}
	return applied, nil
}
