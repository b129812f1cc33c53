package doctor

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
	"github.com/fencepost/fencepost/e2e/broker"
	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(broker.Main(m), pgtest.IgnoreServer()) }

// sound are settings that nothing is wrong with.
func sound() Settings {
	return Settings{
		Roles: node.AllRoles, AdminListen: "127.0.0.1:8081",
		Lease: 20 * time.Second, Session: 15 * time.Second, CallTimeout: 5 * time.Minute, Deadline: time.Hour,
		Drain: 25 * time.Second, Stop: 25 * time.Second, FirstToken: 90 * time.Second, Idle: time.Minute, Stream: true,
		Retention: 24 * time.Hour, Recovery: "none", MaxInFlight: 256, MaxAttempts: 5, Protocol: "classic",
	}
}

// want is a check by name, with the state that a change of sound facts has to give it.
type want struct {
	name  string
	state State
}

// verdicts runs one judgement and wants the named check to have its state, and every other to be ok, or among also.
func verdicts(t *testing.T, judge func(*Findings), names []string, w want, also ...string) {
	t.Helper()
	var f Findings
	judge(&f)
	seen := false
	for _, c := range f.list(Part{Names: names}) {
		switch {
		case c.Name == w.name:
			seen = true
			if c.State != w.state {
				t.Errorf("%s: %s (%s), want %s", c.Name, c.State, c.Finding, w.state)
			}
			if (c.State == Fail || c.State == Warn) && c.Change == "" {
				t.Errorf("%s: %s, and nothing is said about what to change", c.Name, c.State)
			}
		case c.State == OK:
		default:
			allowed := false
			for _, name := range also {
				allowed = allowed || name == c.Name
			}
			if !allowed {
				t.Errorf("%s: %s (%s), want ok", c.Name, c.State, c.Finding)
			}
		}
	}
	if !seen && w.name != "" {
		t.Errorf("no check %s", w.name)
	}
}
