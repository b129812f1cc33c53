package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// TestMutantsFindTheirText keeps the table from rotting: trying them all takes minutes, and is not part of the tests.
func TestMutantsFindTheirText(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if names[m.name] || len(m.edits) == 0 || m.invariant == "" {
				t.Error("a mutant needs a name of its own, an invariant and an edit")
			}
			names[m.name] = true
			contents := map[string]string{} // edits of one file follow each other
			for _, e := range m.edits {
				if contents[e.file] == "" {
					content, err := os.ReadFile(filepath.Join(root, e.file))
					if err != nil {
						t.Fatal(err)
					}
					contents[e.file] = string(content)
				}
				changed, err := e.apply(contents[e.file])
				if err != nil {
					t.Error(err)
				}
				if changed == contents[e.file] {
					t.Errorf("%s: nothing would change", e.file)
				}
				contents[e.file] = changed
			}
			wantTest(t, m)
		})
	}
}

// wantTest makes sure that the test which is to notice is there: a name that matches nothing would pass.
func wantTest(t *testing.T, m mutant) {
	t.Helper()
	name := "TestSimulation"
	for _, arg := range m.test[1:] {
		if _, run, ok := strings.Cut(arg, "-run="); ok {
			name = run
		}
	}
	files, err := filepath.Glob(filepath.Join(root, m.test[0], "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "func "+name) {
			return
		}
	}
	t.Errorf("%s has no test %s", m.test[0], name)
}
