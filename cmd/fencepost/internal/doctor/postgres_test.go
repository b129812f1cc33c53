package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

func soundPostgres() postgresFacts {
	return postgresFacts{
		address: "db:5432/fencepost", version: 150018, versionText: "15.18", encoding: "UTF8", fsync: "on", fullPageWrites: "on",
		synchronousCommit: "on", autovacuum: "on", maxConnections: 100, reserved: 3, roleLimit: -1, databaseLimit: -1, used: 10,
	}
}

func TestPostgresFacts(t *testing.T) {
	for _, c := range []struct {
		about  string
		change func(*postgresFacts)
		want
	}{
		{"as it should be", func(*postgresFacts) {}, want{"reachable", OK}},
		{"too old", func(p *postgresFacts) { p.version = 130022 }, want{"version", Fail}},
		{"an encoding that cannot hold every text", func(p *postgresFacts) { p.encoding = "SQL_ASCII" }, want{"version", Fail}},
		{"a standby", func(p *postgresFacts) { p.standby = true }, want{"writable", Fail}},
		{"read-only", func(p *postgresFacts) { p.readOnly = true }, want{"writable", Fail}},
		{"behind", func(p *postgresFacts) { p.schema = tasks.ErrSchema }, want{"migrations", Fail}},
		{"no fsync", func(p *postgresFacts) { p.fsync = "off" }, want{"durability", Fail}},
		{"torn pages", func(p *postgresFacts) { p.fullPageWrites = "off" }, want{"durability", Fail}},
		{"asynchronous commits", func(p *postgresFacts) { p.synchronousCommit = "off" }, want{"durability", Fail}},
		{"local commits with standbys", func(p *postgresFacts) { p.synchronousCommit, p.standbys = "local", "b" }, want{"durability", Warn}},
		{"local commits alone", func(p *postgresFacts) { p.synchronousCommit = "local" }, want{"durability", OK}},
		// 100 - 3 reserved - 85 used = 12, and the one that asks goes: 13, which is one process of all roles.
		{"room for one more", func(p *postgresFacts) { p.used = 85 }, want{"connections", OK}},
		{"no room", func(p *postgresFacts) { p.used = 86 }, want{"connections", Warn}},
		{"no room for this user", func(p *postgresFacts) { p.roleLimit, p.usedByRole = 13, 2 }, want{"connections", Warn}},
		{"no room in this database", func(p *postgresFacts) { p.databaseLimit, p.usedByBase = 5, 5 }, want{"connections", Warn}},
		{"no autovacuum", func(p *postgresFacts) { p.autovacuum = "off" }, want{"autovacuum", Fail}},
		{"no autovacuum of a table of ours", func(p *postgresFacts) { p.notVacuumed = []string{"tasks"} }, want{"autovacuum", Fail}},
		{"vacuum behind", func(p *postgresFacts) { p.xidAge = oldXids + 1 }, want{"autovacuum", Warn}},
		{"a forgotten transaction", func(p *postgresFacts) { p.oldest = longOpen + time.Second }, want{"transactions", Warn}},
		{"a clock ahead", func(p *postgresFacts) { p.skew = 3 * time.Second }, want{"clock", Warn}},
		{"a clock behind", func(p *postgresFacts) { p.skew = -3 * time.Second }, want{"clock", Warn}},
		{"a slow answer, which says little", func(p *postgresFacts) { p.skew, p.within = 3*time.Second, 2500*time.Millisecond }, want{"clock", OK}},
	} {
		t.Run(c.about, func(t *testing.T) {
			p := soundPostgres()
			c.change(&p)
			verdicts(t, func(f *Findings) { judgePostgres(p, connections(sound()), f) }, PostgresPart("", sound()).Names, c.want)
		})
	}
}

// TestPostgresIsRead: what the judgement goes by is what a server says.
func TestPostgresIsRead(t *testing.T) {
	url := pgtest.URL(t)
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range []string{
		`alter table reply_tasks set (autovacuum_enabled = false)`,
		`do $$ begin execute format('alter database %I set synchronous_commit = off', current_database()); end $$`,
		`do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	states := map[string]Check{}
	for _, c := range Run(ctx, 10*time.Second, PostgresPart(url, sound())).Checks {
		states[c.Name] = c
	}
	for name, state := range map[string]State{"reachable": OK, "version": OK, "writable": Fail, "migrations": OK, "durability": Fail, "autovacuum": Fail, "clock": OK} {
		if got := states[name]; got.State != state {
			t.Errorf("%s: %s (%s), want %s", name, got.State, got.Finding, state)
		}
	}
	if got := states["autovacuum"]; !strings.Contains(got.Finding, "reply_tasks") {
		t.Errorf("the table is not named: %s", got.Finding)
	}
	if got := states["connections"]; got.State == Unknown || got.State == Fail {
		t.Errorf("connections: %s (%s)", got.State, got.Finding)
	}
}

func TestAPostgresThatIsNotThere(t *testing.T) {
	part := PostgresPart("postgres://someone:hunter2@127.0.0.1:1/nothing?sslmode=disable", sound())
	r := Run(t.Context(), 5*time.Second, part)
	if len(r.Checks) != len(part.Names) || r.Checks[0].State != Fail || r.Checks[1].State != Unknown {
		t.Errorf("%+v", r.Checks)
	}
	if c := r.Checks[0]; !strings.Contains(c.Finding, "127.0.0.1:1/nothing") || strings.Contains(c.Finding+c.Change, "hunter2") {
		t.Errorf("%q: want the address, and no password", c.Finding)
	}
}
