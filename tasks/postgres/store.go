package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres/dsn"
)

const (
	defaultConns     = 8
	renewConns       = 2
	connectTimeout   = 5 * time.Second
	statementTimeout = "30s"
	idleTimeout      = "30s" // of a transaction that a stopped process left open
)

// Config says how to reach Postgres. Only URL has no default.
type Config struct {
	URL string
	// MaxConns bounds the pool for work; 8 when 0. Renewals have 2 more.
	MaxConns int
	// ApplicationName is what pg_stat_activity shows; "fencepost" when empty.
	ApplicationName string
	// Pooler is for a URL that leads through a transaction pooler (pgbouncer): no session settings, no prepared
	// statements. Each statement is then planned anew, and nothing but the pooler bounds its time.
	Pooler bool
	// Logger hears of items and rows that had to be isolated; nothing when nil.
	Logger *slog.Logger
}

// Store implements tasks.Store. It is safe for concurrent use.
type Store struct {
	pool   *pgxpool.Pool
	leases *pgxpool.Pool // of renewals only
	config *pgxpool.Config
	log    *slog.Logger
}

var _ tasks.Store = (*Store)(nil)

// Open connects. The error wraps dsn.ErrURL, or tasks.ErrUnavailable with the address and what to check.
func Open(ctx context.Context, c Config) (*Store, error) {
	cfg, err := dsn.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	c.apply(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, dsn.Unavailable(cfg, err)
	}
	renewals := cfg.Copy()
	renewals.MaxConns = renewConns
	renewals.MinConns = 1 // a server that is out of connections must not be asked for one when a lease is running out
	leases, err := pgxpool.NewWithConfig(ctx, renewals)
	if err != nil {
		pool.Close()
		return nil, dsn.Unavailable(cfg, err)
	}
	s := &Store{pool: pool, leases: leases, config: cfg, log: c.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.Ping(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (c Config) apply(cfg *pgxpool.Config) {
	cfg.MaxConns = int32(defaultConns)
	if c.MaxConns > 0 {
		cfg.MaxConns = int32(min(c.MaxConns, 10_000))
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	setting := func(name, value string) {
		if _, given := cfg.ConnConfig.RuntimeParams[name]; !given {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	if c.ApplicationName != "" {
		setting("application_name", c.ApplicationName)
	} else {
		setting("application_name", "fencepost")
	}
	if c.Pooler {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		return
	}
	setting("statement_timeout", statementTimeout)
	setting("idle_in_transaction_session_timeout", idleTimeout)
	// A prepared statement is planned once, perhaps while its table has ten rows, and kept until the table is analyzed:
	// a scan of the table would then be the plan for a million. Every statement here finds its rows by an index, so scans
	// are taken out of the choice, and with them the reason to plan again for the arguments of each batch.
	setting("plan_cache_mode", "force_generic_plan")
	setting("enable_seqscan", "off")
	// The cost of a plan, which is of a guess here and has a penalty on each scan left, would turn compilation on: 2.4 s
	// for a statement of 3 ms.
	setting("jit", "off")
}

// NewStore uses a pool that its caller owns, for work and renewals alike, with the settings that it has.
func NewStore(pool *pgxpool.Pool) *Store {
	return &Store{pool: pool, config: pool.Config(), log: slog.New(slog.DiscardHandler)}
}

// Pool is the pool for work. It is closed with the store.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Ping asks the database for an answer.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return s.wrap(ctx, "ping", err)
	}
	return nil
}

// Close waits for the calls under way and closes what Open opened. A pool given to NewStore stays open.
func (s *Store) Close() {
	if s.leases == nil {
		return
	}
	s.leases.Close()
	s.pool.Close()
}

// renewals is the pool that a renewal uses.
func (s *Store) renewals() *pgxpool.Pool {
	if s.leases != nil {
		return s.leases
	}
	return s.pool
}
