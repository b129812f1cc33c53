package outbox_test

import (
	"testing"

	"github.com/fencepost/fencepost/tasks/postgres"
)

// TestOneLeads: of several dispatchers one leads, by its own word and by the database's, and another one when it stops.
func TestOneLeads(t *testing.T) {
	w := newWorld(t)
	store := postgres.NewOutbox(w.pool)
	if who, err := store.Leader(t.Context()); err != nil || who != "" {
		t.Errorf("before any: %q, %v", who, err)
	}
	all := map[string]running{}
	for _, name := range []string{"a", "b", "c"} {
		config := w.config(store)
		config.Owner = name
		all[name] = w.start(config)
	}
	leader := func() (who string, n int) {
		for name, d := range all {
			if d.Leads() {
				who, n = name, n+1
			}
		}
		return who, n
	}
	agreed := func(not string) string {
		t.Helper()
		var who string
		w.until("one leads and the database says the same", func() bool {
			// One that is alone has every shard: who leads is a question only when all have some.
			var owners int
			if err := w.pool.QueryRow(t.Context(), "select count(distinct owner) from outbox_shards").Scan(&owners); err != nil || owners != len(all) {
				return false
			}
			one, n := leader()
			said, err := store.Leader(t.Context())
			who = one
			return err == nil && n == 1 && said == one && one != not
		})
		return who
	}
	first := agreed("")
	stopped := all[first]
	delete(all, first)
	stopped.stop()
	if stopped.Leads() {
		t.Error("one that has stopped leads")
	}
	agreed(first)
	for name, d := range all {
		d.stop()
		delete(all, name)
	}
	for lease, want := range map[string]string{"1 hour": "owner 0", "-1 hour": ""} {
		if _, err := w.pool.Exec(t.Context(), "update outbox_shards set owner = 'owner ' || shard, lease_until = clock_timestamp() + $1::text::interval", lease); err != nil {
			t.Fatal(err)
		}
		if who, err := store.Leader(t.Context()); err != nil || who != want {
			t.Errorf("with leases of %s %q leads, %v, want %q", lease, who, err, want)
		}
	}
}
