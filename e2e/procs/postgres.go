package procs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks/postgres/embedded"
)

// server is the Postgres of the test binary. Unlike pgtest's it syncs: what is tested here is what survives.
var server struct {
	sync.Mutex
	embedded *embedded.Server
	dir      string
}

// postgresServer returns the URL of a server: the environment's, else a private one.
func postgresServer(ctx context.Context) (string, error) {
	if u := os.Getenv("FENCEPOST_TEST_POSTGRES_URL"); u != "" {
		return u, nil
	}
	server.Lock()
	defer server.Unlock()
	if server.embedded == nil {
		dir, err := os.MkdirTemp("", "fencepost-procs-pg-")
		if err != nil {
			return "", err
		}
		server.dir = dir
		server.embedded, err = embedded.Start(ctx, embedded.Config{DataDir: dir, Settings: map[string]string{"max_connections": "300"}})
		if err != nil {
			return "", err
		}
	}
	return server.embedded.URL("postgres"), nil
}

func stopPostgres() error {
	server.Lock()
	defer server.Unlock()
	var err error
	if server.embedded != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		err = server.embedded.Stop(ctx)
		server.embedded = nil
	}
	if server.dir != "" {
		err = errors.Join(err, os.RemoveAll(server.dir))
	}
	return err
}

// database makes an empty database and returns its URL. On a server that is not ours it is dropped at the end of the
// test; ours is removed as a whole, and a drop, which waits for a checkpoint, takes seconds.
func database(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	base, err := postgresServer(ctx)
	if err != nil {
		t.Fatalf("postgres: %v", err)
	}
	name := "fencepost_procs_" + strings.ToLower(rand.Text())
	if err := execute(ctx, base, "create database "+name); err != nil {
		t.Fatalf("postgres: %v", err)
	}
	if os.Getenv("FENCEPOST_TEST_POSTGRES_URL") != "" {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := execute(ctx, base, "drop database "+name+" with (force)"); err != nil {
				t.Errorf("postgres: %v", err)
			}
		})
	}
	u, err := url.Parse(base)
	if err != nil {
		t.Fatalf("postgres: %v", err)
	}
	u.Path = "/" + name
	return u.String()
}

func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	if cerr := conn.Close(ctx); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}
