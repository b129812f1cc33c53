package broker

import (
	"fmt"
	"os"
)

// Runner is what TestMain runs: *testing.M, and what goleak.VerifyTestMain takes.
type Runner interface{ Run() int }

// Main wraps a test binary's tests so that the shared broker ends after the last one:
//
//	func TestMain(m *testing.M) { os.Exit(broker.Main(m).Run()) }
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(broker.Main(m)) }
func Main(m Runner) Runner { return runner{m} }

type runner struct{ tests Runner }

// Run runs the tests and ends the shared broker.
func (r runner) Run() int {
	code := r.tests.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		code = max(code, 1)
	}
	return code
}
