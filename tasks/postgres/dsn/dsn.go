package dsn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/tasks"
)

// ErrURL: the connection URL cannot be used. The message says why, without the URL itself.
var ErrURL = errors.New("the Postgres URL cannot be used")

// Parse reads a connection URL (postgres://user:password@host:port/database) or a keyword string (host=... user=...).
// Its error wraps ErrURL.
func Parse(raw string) (*pgxpool.Config, error) {
	if strings.TrimSpace(raw) == "" {
		return nil, fmt.Errorf("%w: it is empty; want postgres://USER@HOST:PORT/DATABASE", ErrURL)
	}
	cfg, err := pgxpool.ParseConfig(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrURL, reason(raw, err))
	}
	return cfg, nil
}

// reason is pgx's own reason where it cannot hold a part of the password. pgx masks what it recognises as one, but in a
// URL that does not parse, the parts have no certain borders: net/url then reports "invalid port" with half a password.
func reason(raw string, err error) string {
	const general = `want postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of the password written as %XX`
	u, perr := url.Parse(raw)
	if perr != nil || u.Scheme == "" {
		return general
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "its scheme is not postgres; " + general
	}
	msg := err.Error()
	if inner := errors.Unwrap(err); inner != nil {
		msg = inner.Error()
	}
	password, _ := u.User.Password()
	for _, secret := range []string{password, url.QueryEscape(password), u.Query().Get("password"), u.Query().Get("sslpassword")} {
		if secret != "" && strings.Contains(msg, secret) {
			return general
		}
	}
	if strings.Contains(msg, raw) {
		return general
	}
	return msg
}

// Address is where cfg points: host:port/database, without user and password.
func Address(cfg *pgxpool.Config) string {
	c := cfg.ConnConfig
	host := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	if strings.HasPrefix(c.Host, "/") { // a Unix socket's directory
		host = c.Host + ":" + strconv.Itoa(int(c.Port))
	}
	return host + "/" + c.Database
}

// Unavailable wraps a failure to connect into tasks.ErrUnavailable, with the address and what to check.
func Unavailable(cfg *pgxpool.Config, err error) error {
	return fmt.Errorf("%w: Postgres at %s: %s: %w", tasks.ErrUnavailable, Address(cfg), advice(cfg, err), masked{err})
}

func advice(cfg *pgxpool.Config, err error) string {
	var server *pgconn.PgError
	var dns *net.DNSError
	switch {
	case errors.As(err, &server):
		switch server.Code {
		case "28P01", "28000":
			return "it refused user " + strconv.Quote(cfg.ConnConfig.User) + " (check user, password and pg_hba.conf)"
		case "3D000":
			return "it has no database " + strconv.Quote(cfg.ConnConfig.Database) + " (create it, or check the URL)"
		case "53300":
			return "it has no connection left (raise max_connections or lower the pool sizes)"
		case "57P03":
			return "it is starting or stopping (try again shortly)"
		}
		return "it refused the connection"
	case errors.As(err, &dns):
		return "the host name cannot be resolved (check the URL)"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time (check the address, a firewall between, and whether the server is overloaded)"
	}
	return "cannot connect (check that the server runs and listens there, and sslmode in the URL)"
}

// masked keeps the chain of an error but prints only its innermost part: pgx's outer messages repeat the connection
// settings once for every address and TLS mode that was tried.
type masked struct{ err error }

func (m masked) Unwrap() error { return m.err }

func (m masked) Error() string {
	var server *pgconn.PgError
	if errors.As(m.err, &server) {
		return server.Message + " (SQLSTATE " + server.Code + ")"
	}
	var op *net.OpError
	if errors.As(m.err, &op) {
		return op.Error()
	}
	inner := m.err
	for {
		switch x := inner.(type) {
		case interface{ Unwrap() error }:
			if next := x.Unwrap(); next != nil {
				inner = next
				continue
			}
		case interface{ Unwrap() []error }:
			if all := x.Unwrap(); len(all) > 0 {
				inner = all[0]
				continue
			}
		}
		return inner.Error()
	}
}
