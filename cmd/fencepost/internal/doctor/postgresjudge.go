package doctor

import (
	"strings"
	"time"
)

const (
	leastPostgres = 14 // the oldest that the tests run against
	oldXids       = 1_000_000_000
	longOpen      = time.Hour
	// clockApart is what a clock may be off before it is worth a word. Leases and deadlines go by the database's clock
	// alone; the machine's is in records and logs.
	clockApart = time.Second
)

func judgePostgres(p postgresFacts, need int, f *Findings) {
	f.Add("reachable", OK, "", "%s, connected in %s", p.address, p.took.Round(time.Millisecond))
	switch major := p.version / 10_000; {
	case major < leastPostgres:
		f.Add("version", Fail, "upgrade to Postgres 14 or later", "Postgres %s", p.versionText)
	case p.encoding != "UTF8":
		f.Add("version", Fail, "make the database anew with encoding UTF8", "the database's encoding is %s, which cannot hold every text", p.encoding)
	default:
		f.Add("version", OK, "", "Postgres %s", p.versionText)
	}
	switch {
	case p.standby:
		f.Add("writable", Fail, "point --postgres-url at the primary (target_session_attrs=read-write chooses it among several hosts)", "it is a standby, which can only be read")
	case p.readOnly:
		f.Add("writable", Fail, "turn off default_transaction_read_only for this user and database", "transactions are read-only")
	default:
		f.Add("writable", OK, "", "it is a primary")
	}
	if p.schema != nil {
		f.Add("migrations", Fail, schemaAdvice(p.schema), "%v", p.schema)
	} else {
		f.Add("migrations", OK, "", "the schema is this program's")
	}
	judgeDurability(p, f)
	judgeConnections(p, need, f)
	switch {
	case p.autovacuum != "on":
		off := p.autovacuum
		if len(p.notVacuumed) > 0 {
			off += ", and apart from that for " + strings.Join(p.notVacuumed, ", ")
		}
		f.Add("autovacuum", Fail, "turn autovacuum on", "it is %s: every attempt leaves dead rows behind, and claims slow down without end", off)
	case len(p.notVacuumed) > 0:
		f.Add("autovacuum", Fail, "alter table "+p.notVacuumed[0]+" reset (autovacuum_enabled)", "it is turned off for %s", strings.Join(p.notVacuumed, ", "))
	case p.xidAge > oldXids:
		f.Add("autovacuum", Warn, "find what holds it back (old transactions, replication slots, prepared transactions), and vacuum",
			"the oldest row is %d million transactions old; at 2,000 the server stops taking writes", p.xidAge/1_000_000)
	default:
		f.Add("autovacuum", OK, "", "on, oldest row %d million transactions old", p.xidAge/1_000_000)
	}
	if p.oldest > longOpen {
		f.Add("transactions", Warn, "find it in pg_stat_activity by its xact_start, and end it",
			"a transaction has been open for %s: nothing that died since can be vacuumed", p.oldest.Round(time.Second))
	} else {
		f.Add("transactions", OK, "", "the oldest that is open began %s ago", p.oldest.Round(time.Second))
	}
	if off := p.skew.Abs() - p.within; off > clockApart {
		f.Add("clock", Warn, "have this machine and the database's keep time by NTP; leases go by the database's clock alone and are not at risk",
			"the database's clock is %s", apart(p.skew))
	} else {
		f.Add("clock", OK, "", "the database's clock is %s, give or take %s", apart(p.skew), p.within.Round(time.Millisecond))
	}
}

// apart is how far another clock is from this machine's.
func apart(d time.Duration) string {
	switch r := d.Abs().Round(time.Millisecond); {
	case r == 0:
		return "this machine's"
	case d > 0:
		return r.String() + " ahead of this machine's"
	default:
		return r.String() + " behind this machine's"
	}
}

func judgeDurability(p postgresFacts, f *Findings) {
	switch {
	case p.fsync != "on":
		f.Add("durability", Fail, "turn fsync on", "fsync is %s: a crash of the machine loses or corrupts what was accepted and saved", p.fsync)
	case p.fullPageWrites != "on":
		f.Add("durability", Fail, "turn full_page_writes on, unless the file system itself writes pages whole", "full_page_writes is %s: a crash may leave half a page", p.fullPageWrites)
	case p.synchronousCommit == "off":
		f.Add("durability", Fail, "alter role ... set synchronous_commit = on, for the user of --postgres-url",
			"synchronous_commit is off: a message that was answered 202 may be lost in a crash, and so may an attempt that was paid for")
	case p.standbys != "" && p.synchronousCommit == "local":
		f.Add("durability", Warn, "set synchronous_commit = on", "synchronous_commit is local although there are synchronous standbys: a failover loses what was accepted last")
	case p.standbys == "":
		f.Add("durability", OK, "", "fsync on, synchronous_commit %s; no synchronous standby, so a failover may lose what was accepted last", p.synchronousCommit)
	default:
		f.Add("durability", OK, "", "fsync on, synchronous_commit %s with standbys %s", p.synchronousCommit, p.standbys)
	}
}

// judgeConnections says for how many more processes there is room.
func judgeConnections(p postgresFacts, need int, f *Findings) {
	free, bound := p.maxConnections-p.reserved-p.used, "max_connections"
	for _, b := range []struct {
		limit, used int
		name        string
	}{{p.roleLimit, p.usedByRole, "the role's connection limit"}, {p.databaseLimit, p.usedByBase, "the database's connection limit"}} {
		if b.limit >= 0 && b.limit-b.used < free {
			free, bound = b.limit-b.used, b.name
		}
	}
	free = max(0, free+1) // the one that asks goes
	if free < need {
		f.Add("connections", Warn, "raise "+bound+", or run fewer processes; a process waits for connections that it does not get",
			"%d are free by %s, and one process of these roles opens up to %d", free, bound, need)
		return
	}
	f.Add("connections", OK, "", "%d are free by %s: room for %d more processes of these roles, of up to %d each",
		free, bound, free/need, need)
}
