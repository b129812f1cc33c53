package doctor

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/node"
)

// Settings are what the roles are to be run with.
type Settings struct {
	Roles []node.Role
	// Invalid is why `run` would refuse them, and Hint its remedy.
	Invalid error
	Hint    string

	AdminListen string

	Lease, Session, CallTimeout, Deadline   time.Duration
	Drain, Stop, FirstToken, Idle           time.Duration
	Retention, TaskRetention                time.Duration
	Recovery                                string // "none" or the way
	RecoveryRetention                       time.Duration
	MaxInFlight, MaxAttempts, HistoryTokens int

	Stream            bool
	OffsetsInPostgres bool
	Protocol          string // classic or consumer
	InstanceID        string
}

func (s Settings) has(role node.Role) bool {
	for _, r := range s.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// slowStatement is how long one statement of the store may take before it is given up (consumer's storeTimeout): a lease
// that is not longer may end while its renewal is under way.
const slowStatement = 15 * time.Second

// lastSettles is how long a stop waits for the store after the calls have ended.
const lastSettles = 10 * time.Second

// SettingsPart judges the settings against one another.
func SettingsPart(s Settings) Part {
	return Part{Name: "settings", Names: []string{"valid", "lease", "deadline", "stop", "streaming", "recovery", "retention", "admin"},
		Look: func(_ context.Context, f *Findings) { judgeSettings(s, f) }}
}

func judgeSettings(s Settings, f *Findings) {
	if s.Invalid != nil {
		f.Add("valid", Fail, s.Hint, "%v", s.Invalid)
	} else {
		f.Add("valid", OK, "", "roles %s", words(s.Roles))
	}
	switch {
	case s.Lease <= slowStatement:
		f.Add("lease", Warn, "raise --lease above "+slowStatement.String()+"; the default is 20s",
			"%s is not longer than the %s after which a slow statement is given up: a slow database then costs calls a second time", s.Lease, slowStatement)
	case s.Lease > 2*time.Minute:
		f.Add("lease", Warn, "lower --lease; it is renewed while a call runs, so it need not be as long as one",
			"the tasks of a worker that dies wait for %s", s.Lease)
	default:
		f.Add("lease", OK, "", "the tasks of a worker that dies go on after %s, its other records after %s", s.Lease, s.Session)
	}
	switch {
	case s.CallTimeout >= s.Deadline:
		f.Add("deadline", Warn, "raise --deadline, or lower --call-timeout",
			"one call may take %s, which is the whole --deadline of %s: nothing is left for a second attempt", s.CallTimeout, s.Deadline)
	case 2*s.CallTimeout > s.Deadline && s.MaxAttempts > 1:
		f.Add("deadline", Warn, "raise --deadline, or lower --call-timeout",
			"two calls of %s do not fit into --deadline %s", s.CallTimeout, s.Deadline)
	default:
		f.Add("deadline", OK, "", "%d attempts within %s, each of up to %s", s.MaxAttempts, s.Deadline, s.CallTimeout)
	}
	stop := max(s.Stop, s.Drain)
	finding := fmt.Sprintf("a stop takes up to %s, so let whoever kills the process wait for longer (Kubernetes: terminationGracePeriodSeconds, 30 by default)", stop+lastSettles)
	if stop < s.CallTimeout && s.Recovery == "none" {
		finding += fmt.Sprintf("; a call that needs more than %s of it is made again elsewhere", stop)
	}
	f.Add("stop", OK, "", "%s", finding)
	switch {
	case !s.Stream:
		f.Add("streaming", OK, "", "off: a call that stands still is noticed after %s", s.CallTimeout)
	case s.FirstToken >= s.CallTimeout || s.Idle >= s.CallTimeout:
		f.Add("streaming", Warn, "lower --llm-first-token-timeout and --llm-idle-timeout below --call-timeout",
			"the longest silences (%s before, %s within an answer) are no shorter than --call-timeout %s and never notice anything", s.FirstToken, s.Idle, s.CallTimeout)
	default:
		f.Add("streaming", OK, "", "a call that stands still is noticed after %s, or %s within its answer", s.FirstToken, s.Idle)
	}
	if s.Recovery != "none" && s.RecoveryRetention > 0 && s.RecoveryRetention < s.Lease+s.CallTimeout {
		f.Add("recovery", Warn, "raise --llm-recovery-retention, if the provider keeps answers for so long",
			"an answer is looked up for %s, while a lost call may be found out only after %s", s.RecoveryRetention, s.Lease+s.CallTimeout)
	} else if s.Recovery == "none" {
		f.Add("recovery", OK, "", "none declared: a call whose answer is lost is made again, unless its message says stop")
	} else {
		f.Add("recovery", OK, "", "%s", s.Recovery)
	}
	if s.TaskRetention > 0 && s.TaskRetention < s.Retention {
		f.Add("retention", Warn, "raise --task-retention to at least --retention",
			"tasks are deleted after %s, while their keys are remembered for %s: a late repeat finds a key whose task is gone", s.TaskRetention, s.Retention)
	} else {
		f.Add("retention", OK, "", "keys for %s, finished tasks %s", s.Retention, keptFor(s.TaskRetention))
	}
	host, _, err := net.SplitHostPort(s.AdminListen)
	ip := net.ParseIP(host)
	switch {
	case err != nil:
		f.Add("admin", Fail, "for example --admin-listen 127.0.0.1:8081", "--admin-listen: %q is not an address", s.AdminListen)
	case host == "localhost" || ip != nil && ip.IsLoopback():
		f.Add("admin", OK, "", "%s", s.AdminListen)
	default:
		f.Add("admin", Warn, "keep it on loopback, or behind a network that only operators and Prometheus reach",
			"%s is open to others and has no authentication", s.AdminListen)
	}
}

func keptFor(d time.Duration) string {
	if d == 0 {
		return "for ever"
	}
	return "for " + d.String()
}

func words(roles []node.Role) string {
	out := ""
	for i, r := range roles {
		if i > 0 {
			out += ", "
		}
		out += string(r)
	}
	return out
}
