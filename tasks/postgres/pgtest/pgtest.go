package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/tasks/postgres/embedded"
)

// Env names the environment variable with the server to use.
const Env = "FENCEPOST_TEST_POSTGRES_URL"

// timeout bounds each step, among them a download where the machine has no Postgres.
const timeout = 2 * time.Minute

// URL returns the address of a fresh, migrated database, which is dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	name, err := template()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return create(t, name)
}

// Empty returns the address of a fresh database without any table, which is dropped when the test ends.
func Empty(t testing.TB) string {
	t.Helper()
	return create(t, "template0")
}

// IgnoreServer tells goleak about the private server's goroutine.
func IgnoreServer() goleak.Option {
	return goleak.IgnoreAnyFunction("github.com/fencepost/fencepost/tasks/postgres/embedded.(*Server).own")
}

// create makes a database from a template and drops it at the end of the test.
func create(t testing.TB, template string) string {
	t.Helper()
	server, err := serverURL()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	name := "fencepost_test_" + strings.ToLower(rand.Text())
	err = execute(ctx, server, "create database "+name+" template "+template)
	if err != nil {
		t.Fatalf("pgtest: create a database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := execute(ctx, server, "drop database if exists "+name+" with (force)"); err != nil {
			t.Errorf("pgtest: drop the database: %v", err)
		}
	})
	return withDatabase(server, name)
}

// serverURL starts the private server once, unless the environment names one.
var serverURL = sync.OnceValues(func() (string, error) {
	if u := os.Getenv(Env); u != "" {
		return u, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "fencepost-pgtest-")
	if err != nil {
		return "", err
	}
	server, err := embedded.Start(ctx, embedded.Config{
		DataDir: dir,
		NoFsync: true,
		Settings: map[string]string{
			"max_connections": "300",
			"autovacuum":      "off", // it would wait for, or hold, what tests drop and lock
		},
	})
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("no server in %s, and a private one cannot be started: %w", Env, err)
	}
	// The server itself ends with us; a test binary has no last moment of its own for the files.
	if err := removeAfter(server.PID(), dir); err != nil {
		return "", err
	}
	return server.URL("postgres"), nil
})

// template returns the name of a migrated database on the server that nobody connects to. It is made once for each set
// of migrations and server, by whichever process comes first.
var template = sync.OnceValues(func() (string, error) {
	server, err := serverURL()
	if err != nil {
		return "", err
	}
	fingerprint, err := migrations.Fingerprint()
	if err != nil {
		return "", err
	}
	name := "fencepost_template_" + fingerprint
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	// The lock goes with the connection, however this process ends.
	if _, err := conn.Exec(ctx, "select pg_advisory_lock(hashtext('fencepost pgtest'))"); err != nil {
		return "", err
	}
	// Marked as a template only when it is complete.
	var complete bool
	err = conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1 and datistemplate)", name).Scan(&complete)
	if err != nil || complete {
		return name, err
	}
	if _, err := conn.Exec(ctx, "drop database if exists "+name+" with (force)"); err != nil {
		return "", err
	}
	if _, err := conn.Exec(ctx, "create database "+name+" template template0"); err != nil {
		return "", err
	}
	if _, err := migrations.Up(ctx, withDatabase(server, name)); err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, "alter database "+name+" is_template true")
	return name, err
})

// execute runs one statement on a connection of its own.
func execute(ctx context.Context, server, sql string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// withDatabase is a server's address with another database.
func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		return server + " dbname=" + name
	}
	u.Path = "/" + name
	return u.String()
}
