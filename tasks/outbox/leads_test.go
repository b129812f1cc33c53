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
			one, n := leader()
			said, err := store.Leader(t.Context())
			who = one
			return err == nil && n == 1 && said == one && one != not
		})
		return who
	}
	first := agreed("")
	all[first].stop()
	if all[first].Leads() {
		t.Error("one that has stopped leads")
	}
	agreed(first)
}
