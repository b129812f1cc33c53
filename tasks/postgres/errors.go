package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres/dsn"
)

// code is the SQLSTATE of a server's error, or empty.
func code(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return ""
}

// lockTimeout reports that the statement ended because it waited too long for a row or a key.
func lockTimeout(err error) bool { return code(err) == "55P03" }

// collided reports that the server undid the statement because of others that ran at the same time. It may be repeated.
func collided(err error) bool {
	c := code(err)
	return c == "40001" || c == "40P01"
}

// badData reports that the values of an item are the cause: data exception, integrity violation, program limit. The same
// item fails the same way whenever it is tried.
func badData(err error) bool {
	c := code(err)
	return len(c) == 5 && (c[:2] == "22" || c[:2] == "23" || c[:2] == "54")
}

// wrap says what the failure of a whole call means. After a lost connection nobody knows whether the transaction was
// committed, so that too is ErrUnavailable: callers repeat, and a repeat finds out.
func (s *Store) wrap(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	var connect *pgconn.ConnectError
	c := code(err)
	switch {
	case errors.As(err, &connect):
		return fmt.Errorf("%s: %w", op, dsn.Unavailable(s.config, err))
	case c == "42P01" || c == "42703":
		return fmt.Errorf("%s: %w: %w (has the database been migrated by this version? see `fencepost migrate status`)", op, tasks.ErrSchema, err)
	case c == "" || unavailable(c):
		return fmt.Errorf("%s: %w: Postgres at %s: %w", op, tasks.ErrUnavailable, dsn.Address(s.config), err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// unavailable tells the server's troubles from the statement's: connection, rollback, resources, lock, operator, system
// and internal errors, and a standby that was promoted away from us (25006: read-only).
func unavailable(c string) bool {
	switch c[:2] {
	case "08", "40", "53", "55", "57", "58", "XX":
		return true
	}
	return c == "25006"
}

// invalid is the outcome of the one item that cannot be stored.
func invalid(err error) error { return fmt.Errorf("%w: %w", tasks.ErrInvalid, err) }
