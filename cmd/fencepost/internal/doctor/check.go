package doctor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// State is what a check came to.
type State string

const (
	OK      State = "ok"
	Unknown State = "unknown" // it could not be looked at
	Warn    State = "warn"    // it works, and something will be worse than it has to be
	Fail    State = "fail"    // it does not work, or loses what was promised
)

// states from the least to the worst.
var states = []State{OK, Unknown, Warn, Fail}

// Check is one thing that was looked at.
type Check struct {
	Part    string `json:"part"` // settings, kafka, postgres, provider
	Name    string `json:"check"`
	State   State  `json:"state"`
	Finding string `json:"finding"`
	Change  string `json:"change,omitempty"` // what to do about it
}

// Report is everything that was looked at.
type Report struct {
	State  State   `json:"state"` // the worst of the checks
	Checks []Check `json:"checks"`
}

// Part looks at one part of the outside.
type Part struct {
	Name  string
	Names []string // its checks, in order
	// Look adds what it finds. A check of Names that it says nothing about is unknown.
	Look func(context.Context, *Findings)
}

// Findings collects the checks of one part.
type Findings struct {
	mu     sync.Mutex
	closed bool
	why    string
	checks []Check
}

// Add says what a check came to. The first word on a check counts: the others are of the same trouble.
func (f *Findings) Add(name string, s State, change, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.checks = append(f.checks, Check{Name: name, State: s, Finding: fmt.Sprintf(format, args...), Change: change})
	}
}

// Rest says why the checks that nothing is said about are unknown.
func (f *Findings) Rest(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == "" {
		f.why = fmt.Sprintf(format, args...)
	}
}

// list closes f, since a part that is deaf to its deadline may still write.
func (f *Findings) list(part Part) []Check {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	why := f.why
	if why == "" {
		why = "not looked at: the time was over"
	}
	out := make([]Check, 0, len(part.Names))
	for _, name := range part.Names {
		c := Check{Name: name, State: Unknown, Finding: why}
		if i := slices.IndexFunc(f.checks, func(c Check) bool { return c.Name == name }); i >= 0 {
			c = f.checks[i]
		}
		c.Part = part.Name
		out = append(out, c)
	}
	return out
}

// Run looks at the parts side by side, each for at most timeout. The goroutines it starts end with their parts' looking,
// which is bounded by the same timeout.
func Run(ctx context.Context, timeout time.Duration, parts ...Part) Report {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found := make([]Findings, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts {
		wg.Go(func() { part.Look(ctx, &found[i]) })
	}
	wg.Wait()
	report := Report{State: OK}
	for i, part := range parts {
		report.Checks = append(report.Checks, found[i].list(part)...)
	}
	for _, c := range report.Checks {
		if slices.Index(states, c.State) > slices.Index(states, report.State) {
			report.State = c.State
		}
	}
	return report
}
