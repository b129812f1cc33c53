package procs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/fencepost/fencepost/e2e/broker"
)

// binary builds the program once for the test binary. FENCEPOST_TEST_BINARY names one that is built already, for
// example with the race detector.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("FENCEPOST_TEST_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	dir, err := os.MkdirTemp("", "fencepost-procs-")
	if err != nil {
		return "", err
	}
	built.dir = dir
	path := filepath.Join(dir, "fencepost")
	build := exec.Command("go", "build", "-o", path, "./cmd/fencepost")
	build.Dir = sourceRoot() // the benchmarks are another module, with other requirements
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

var built struct{ dir string }

// sourceRoot is the folder of the module that holds this file.
func sourceRoot() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Binary returns the path of the program under test.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Main wraps a test binary's tests: what they shared (the program, the broker, the database server) ends after them.
func Main(m broker.Runner) broker.Runner { return runner{broker.Main(m)} }

type runner struct{ tests broker.Runner }

// Run runs the tests and cleans up.
func (r runner) Run() int {
	code := r.tests.Run()
	if err := stopPostgres(); err != nil {
		fmt.Fprintln(os.Stderr, "postgres:", err)
		code = max(code, 1)
	}
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	return code
}
