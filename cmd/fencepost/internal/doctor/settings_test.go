package doctor

import (
	"errors"
	"testing"
	"time"
)

func TestSettingsAgainstOneAnother(t *testing.T) {
	for _, c := range []struct {
		about  string
		change func(*Settings)
		want
	}{
		{"the defaults", func(*Settings) {}, want{"valid", OK}},
		{"refused by run", func(s *Settings) { s.Invalid, s.Hint = errors.New("--lease: 0s"), "raise it" }, want{"valid", Fail}},
		{"a lease as long as a slow statement", func(s *Settings) { s.Lease = slowStatement }, want{"lease", Warn}},
		{"a lease that is just longer", func(s *Settings) { s.Lease = slowStatement + time.Second }, want{"lease", OK}},
		{"a lease of hours", func(s *Settings) { s.Lease = time.Hour }, want{"lease", Warn}},
		{"a call as long as the deadline", func(s *Settings) { s.CallTimeout = s.Deadline }, want{"deadline", Warn}},
		{"no room for a second call", func(s *Settings) { s.Deadline = 9 * time.Minute }, want{"deadline", Warn}},
		{"one attempt needs no room", func(s *Settings) { s.Deadline, s.MaxAttempts = 9*time.Minute, 1 }, want{"deadline", OK}},
		{"silence that nobody notices", func(s *Settings) { s.FirstToken = s.CallTimeout }, want{"streaming", Warn}},
		{"no streaming, no silence", func(s *Settings) { s.Stream, s.FirstToken = false, s.CallTimeout }, want{"streaming", OK}},
		{"answers kept for less than a call", func(s *Settings) { s.Recovery, s.RecoveryRetention = "idempotency-key", time.Minute }, want{"recovery", Warn}},
		{"tasks gone before their keys", func(s *Settings) { s.TaskRetention = time.Hour }, want{"retention", Warn}},
		{"an admin listener for everybody", func(s *Settings) { s.AdminListen = "0.0.0.0:8081" }, want{"admin", Warn}},
		{"an admin listener for everybody, unsaid", func(s *Settings) { s.AdminListen = ":8081" }, want{"admin", Warn}},
		{"an admin listener nowhere", func(s *Settings) { s.AdminListen = "8081" }, want{"admin", Fail}},
		{"an admin listener on loopback, IPv6", func(s *Settings) { s.AdminListen = "[::1]:8081" }, want{"admin", OK}},
	} {
		t.Run(c.about, func(t *testing.T) {
			s := sound()
			c.change(&s)
			verdicts(t, func(f *Findings) { judgeSettings(s, f) }, SettingsPart(s).Names, c.want)
		})
	}
}
