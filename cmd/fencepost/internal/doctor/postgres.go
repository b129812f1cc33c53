package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres/dsn"
)

// connections is what one process of the roles has open at most: the store's pool and its renewals, the sender of hints,
// and a listener for each role that waits for them.
func connections(s Settings) int {
	n := 8 + 2 + 1
	if s.has(node.API) {
		n++
	}
	if s.has(node.Dispatcher) {
		n++
	}
	return n
}

// PostgresPart looks at the database at url.
func PostgresPart(url string, s Settings) Part {
	return Part{Name: "postgres",
		Names: []string{"reachable", "version", "writable", "migrations", "durability", "connections", "autovacuum", "transactions", "clock"},
		Look: func(ctx context.Context, f *Findings) {
			p, err := readPostgres(ctx, url, f)
			if err != nil {
				f.Rest("Postgres was not reached")
				return
			}
			judgePostgres(p, connections(s), f)
		}}
}

// postgresFacts are what the server says of itself.
type postgresFacts struct {
	address string
	took    time.Duration
	schema  error

	version                      int // server_version_num
	versionText                  string
	encoding                     string
	standby, readOnly            bool
	fsync, fullPageWrites        string
	synchronousCommit, standbys  string
	autovacuum                   string
	notVacuumed                  []string // our tables on which it is turned off
	xidAge                       int64
	maxConnections, reserved     int
	roleLimit, databaseLimit     int // -1: none
	used, usedByRole, usedByBase int
	oldest                       time.Duration // since the oldest transaction of another session began

	skew, within time.Duration // of the server's clock against this machine's, and how sure that is
}

const serverSQL = `
select current_setting('server_version_num')::int, current_setting('server_version'), current_setting('server_encoding'),
       pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on',
       current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
       current_setting('synchronous_standby_names'), current_setting('autovacuum'),
       (select age(datfrozenxid)::bigint from pg_database where datname = current_database()),
       current_setting('max_connections')::int,
       current_setting('superuser_reserved_connections')::int + coalesce(nullif(current_setting('reserved_connections', true), '')::int, 0),
       (select rolconnlimit from pg_roles where rolname = current_user),
       (select datconnlimit from pg_database where datname = current_database())`

const tablesSQL = `
select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname = any (current_schemas(false)) and 'autovacuum_enabled=false' = any (c.reloptions)
order by 1`

// A user without pg_read_all_stats sees the sessions of others, though not what they do.
const sessionsSQL = `
select count(*), count(*) filter (where usename = current_user), count(*) filter (where datname = current_database()),
       coalesce(extract(epoch from clock_timestamp() - min(xact_start) filter (where pid <> pg_backend_pid())), 0)::float8
from pg_stat_activity where coalesce(backend_type, 'client backend') = 'client backend'`

const clockSQL = `select clock_timestamp()`

// readPostgres says itself what it could not read.
func readPostgres(ctx context.Context, url string, f *Findings) (postgresFacts, error) {
	var p postgresFacts
	config, err := dsn.Parse(url)
	if err != nil {
		f.Add("reachable", Fail, "set --postgres-url, or FENCEPOST_POSTGRES_URL where it holds a password", "%v", err)
		return p, err
	}
	p.address = dsn.Address(config)
	config.ConnConfig.RuntimeParams["application_name"] = "fencepost-doctor"
	began := time.Now()
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		f.Add("reachable", Fail, "check --postgres-url (or FENCEPOST_POSTGRES_URL) and that Postgres runs there", "%v", dsn.Unavailable(config, err))
		return p, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	p.took = time.Since(began)
	err = conn.QueryRow(ctx, serverSQL).Scan(&p.version, &p.versionText, &p.encoding, &p.standby, &p.readOnly, &p.fsync, &p.fullPageWrites,
		&p.synchronousCommit, &p.standbys, &p.autovacuum, &p.xidAge, &p.maxConnections, &p.reserved, &p.roleLimit, &p.databaseLimit)
	if err != nil {
		f.Add("reachable", Fail, "look at the server's log; a pooler that speaks for several servers must pass plain statements through",
			"%s answered, and could not be asked for its settings: %v", p.address, err)
		return p, err
	}
	if p.notVacuumed, err = names(ctx, conn, tablesSQL); err != nil {
		f.Add("autovacuum", Unknown, "", "the tables' settings could not be read: %v", err)
	}
	var oldest float64
	if err := conn.QueryRow(ctx, sessionsSQL).Scan(&p.used, &p.usedByRole, &p.usedByBase, &oldest); err != nil {
		f.Add("connections", Unknown, "", "the sessions could not be counted: %v", err)
		f.Add("transactions", Unknown, "", "the sessions could not be read: %v", err)
	}
	p.oldest = time.Duration(oldest * float64(time.Second))
	p.schema = migrations.Check(ctx, conn)
	// The best of a few: a slow answer says little about a clock.
	for range 5 {
		var server time.Time
		before := time.Now()
		if err := conn.QueryRow(ctx, clockSQL).Scan(&server); err != nil {
			f.Add("clock", Unknown, "", "the server's clock could not be read: %v", err)
			break
		}
		half := time.Since(before) / 2
		if p.within == 0 || half < p.within {
			p.skew, p.within = server.Sub(before.Add(half)), half
		}
	}
	return p, nil
}

func names(ctx context.Context, conn *pgx.Conn, sql string) ([]string, error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// schemaAdvice is the next step after a failed check of the schema.
func schemaAdvice(err error) string {
	switch {
	case errors.Is(err, migrations.ErrNewer):
		return "run a newer fencepost"
	case errors.Is(err, tasks.ErrSchema):
		return "fencepost migrate up"
	}
	return "check that the user may read the schema"
}
