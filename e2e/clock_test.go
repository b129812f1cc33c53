package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestI4_OnlyTheDatabasesClockIsAsked: nothing in the stores hands an instant of this machine's clock to the database, nor
// asks it for the instant at which the transaction began, which is before it has waited for a row. The process test with
// wrong clocks (e2e/procs, -procs.clock) shows the effect; this one is always run.
func TestI4_OnlyTheDatabasesClockIsAsked(t *testing.T) {
	forbidden := []struct {
		why  string
		what *regexp.Regexp
		// except names files in which it may stand, and why.
		except map[string]string
	}{
		{"the clock as the transaction began", regexp.MustCompile(`\b(now\(\)|current_timestamp\b|transaction_timestamp\(\)|localtimestamp\b)`), map[string]string{
			"tasks/postgres/reserve.go": "a budget's day is to be one day for all statements of a transaction, and no lease depends on it",
		}},
		{"an instant as a parameter", regexp.MustCompile(`\$\d+::timestamp|\[\]time\.Time`), map[string]string{
			"tasks/postgres/recover.go": "the instant is one that the database gave before",
		}},
		{"this machine's clock", regexp.MustCompile(`\btime\.Now\(`), map[string]string{
			"tasks/postgres/batch.go": "bounds how long this process waits",
		}},
	}
	judged := 0
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") || !strings.HasPrefix(file, "tasks/postgres/") && !strings.HasPrefix(file, "offsets/postgres/") ||
			strings.HasPrefix(file, "tasks/postgres/embedded/") || strings.HasPrefix(file, "tasks/postgres/pgtest/") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		judged++
		for _, f := range forbidden {
			if _, excepted := f.except[file]; excepted {
				continue
			}
			for n, line := range strings.Split(string(source), "\n") {
				code, _, _ := strings.Cut(line, "//")
				if found := f.what.FindString(code); found != "" {
					t.Errorf("%s:%d: %s: %s", file, n+1, f.why, found)
				}
			}
		}
	}
	if judged < 10 {
		t.Fatalf("only %d files: the places have moved", judged)
	}
}
