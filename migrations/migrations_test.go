package migrations_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres/dsn"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

func TestUpConcurrently(t *testing.T) {
	url := pgtest.Empty(t)
	var applied [4]int
	var g errgroup.Group
	for i := range applied {
		g.Go(func() error {
			list, err := migrations.Up(context.Background(), url)
			applied[i] = len(list)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	all, err := migrations.Status(context.Background(), connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	if got := applied[0] + applied[1] + applied[2] + applied[3]; got != len(all) {
		t.Errorf("%d migrations applied by four processes, want each of %d once", got, len(all))
	}
	if err := migrations.Check(context.Background(), connect(t, url)); err != nil {
		t.Errorf("after Up: %v", err)
	}
}

func TestCheckBehind(t *testing.T) {
	conn := connect(t, pgtest.Empty(t))
	err := migrations.Check(context.Background(), conn)
	if !errors.Is(err, tasks.ErrSchema) || !strings.Contains(err.Error(), "fencepost migrate up") {
		t.Errorf("empty database: %v, want ErrSchema that names the command", err)
	}
	list, err := migrations.Status(context.Background(), conn)
	if err != nil || len(list) == 0 || !list[0].AppliedAt.IsZero() {
		t.Errorf("Status of an empty database: %v %v, want all pending", list, err)
	}
	var made bool
	if err := conn.QueryRow(context.Background(), `select to_regclass('goose_db_version') is not null`).Scan(&made); err != nil || made {
		t.Errorf("Status or Check wrote to the database (%v)", err)
	}
}

func TestCheckNewer(t *testing.T) {
	conn := connect(t, pgtest.URL(t))
	if _, err := conn.Exec(context.Background(), `insert into goose_db_version (version_id, is_applied) values (99999, true)`); err != nil {
		t.Fatal(err)
	}
	err := migrations.Check(context.Background(), conn)
	if !errors.Is(err, tasks.ErrSchema) || !strings.Contains(err.Error(), "newer than this program") {
		t.Errorf("database of a newer program: %v, want ErrSchema", err)
	}
}

func TestUpUnreachable(t *testing.T) {
	const url = "postgres://someone:hunter2@127.0.0.1:1/nothing?sslmode=disable"
	_, err := migrations.Up(context.Background(), url)
	if !errors.Is(err, tasks.ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:1/nothing") {
		t.Errorf("nobody listens: %v, want ErrUnavailable that names the address", err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error holds the password: %v", err)
	}
	if _, err := migrations.Up(context.Background(), "postgres://someone:hun/ter2@host/x"); !errors.Is(err, dsn.ErrURL) {
		t.Errorf("bad URL: %v", err)
	}
}
