package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// catalogues of failure modes, and how many failures each has.
var catalogues = map[string]int{"../consumer/README.md": 40, "../llm/README.md": 23}

// Every test that a catalogue names is there.
func TestCataloguesNameTestsThatExist(t *testing.T) {
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(source, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| \d+ \|.*$`)
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	for file, failures := range catalogues {
		catalogue, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows := row.FindAll(catalogue, -1)
		if len(rows) != failures {
			t.Errorf("%s has %d rows, want %d", file, len(rows), failures)
		}
		count := 0
		for _, r := range rows {
			for _, m := range named.FindAllSubmatch(r, -1) {
				count++
				if !tests[string(m[1])] {
					t.Errorf("%s: %s is named and does not exist", file, m[1])
				}
			}
		}
		if count < failures {
			t.Errorf("%s names %d tests for %d failures", file, count, failures)
		}
	}
}
