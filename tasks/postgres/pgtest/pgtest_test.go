package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

func TestURLIsMigratedAndEachTestHasItsOwn(t *testing.T) {
	first, second := pgtest.URL(t), pgtest.URL(t)
	if first == second {
		t.Fatalf("the same database twice: %s", first)
	}
	conn, err := pgx.Connect(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := migrations.Check(t.Context(), conn); err != nil {
		t.Errorf("not migrated: %v", err)
	}
}

func TestEmptyHasNoTables(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var tables int
	if err := conn.QueryRow(t.Context(), "select count(*) from pg_tables where schemaname = 'public'").Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if tables != 0 {
		t.Errorf("%d tables in an empty database", tables)
	}
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	var url string
	t.Run("inner", func(t *testing.T) { url = pgtest.Empty(t) })
	if conn, err := pgx.Connect(t.Context(), url); err == nil {
		conn.Close(t.Context())
		t.Error("the database outlived its test")
	}
}
