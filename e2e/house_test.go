package e2e

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/fencepost/fencepost/"

// root is the repository, seen from this package's folder.
const root = ".."

// goFiles lists the repository's Go files by slash-separated path.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(p, ".go") {
			rel, err := filepath.Rel(root, p)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("found only %d Go files: the walk is wrong", len(files))
	}
	return files
}

// top is the first name of a package's path: tasks of tasks/postgres.
func top(pkg string) string {
	first, _, _ := strings.Cut(pkg, "/")
	return first
}

// mayImport says whether package from may import package to, both of ours, outside of tests.
func mayImport(from, to string) bool {
	switch top(from) {
	case "cmd", "e2e":
		return true
	case "consumer":
		return to == "tasks" || to == "offsets" || to == "llm"
	case "migrations":
		// Running them takes a database's address and the words for a schema that does not fit.
		return to == "tasks" || to == "tasks/postgres/dsn"
	case "tasks", "offsets", "llm":
		if from == top(from) {
			return false
		}
		// pgtest hands out migrated databases; it is imported by tests only.
		if from == "tasks/postgres/pgtest" && to == "migrations" {
			return true
		}
		// Its parents, and what shares its folder below the domain: tasks/postgres/* is one store.
		second := strings.Join(strings.SplitN(from, "/", 3)[:2], "/")
		return to == top(from) || to == second || strings.HasPrefix(to, second+"/")
	}
	return false
}

func TestImportsFollowTheLayers(t *testing.T) {
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if to, ours := strings.CutPrefix(imported, module); ours && !mayImport(path.Dir(file), to) {
				t.Errorf("%s imports %s, which is against the layers", file, to)
			}
		}
	}
}

func TestLayersThatMustNotBe(t *testing.T) {
	for _, c := range []struct{ from, to string }{
		{"tasks", "llm"}, {"offsets", "tasks"}, {"llm", "llm/sim"}, {"tasks/postgres", "offsets"},
		{"tasks/httpapi", "tasks/postgres"}, {"consumer", "tasks/postgres"}, {"consumer", "offsets/kafka"},
		{"tasks/outbox", "consumer"}, {"llm/openai", "llm/sim"}, {"migrations", "tasks/postgres"}, {"elsewhere", "tasks"},
	} {
		if mayImport(c.from, c.to) {
			t.Errorf("%s may import %s", c.from, c.to)
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	docs := map[string]bool{}
	for _, file := range goFiles(t) {
		dir := path.Dir(file)
		docs[dir] = docs[dir] || path.Base(file) == "doc.go"
	}
	for dir, has := range docs {
		if !has {
			t.Errorf("%s has no doc.go", dir)
		}
	}
}

func TestNoFileIsLongerThan600Lines(t *testing.T) {
	for _, file := range goFiles(t) {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(content, []byte("\n")); n > 600 {
			t.Errorf("%s has %d lines", file, n)
		}
	}
}

func TestTopLevelIsTheGivenOne(t *testing.T) {
	given := []string{"cmd", "consumer", "offsets", "tasks", "llm", "migrations", "e2e",
		"go.mod", "go.sum", "compose.yaml", "README.md", "LICENSE"}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, e := range entries {
		there = append(there, e.Name())
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(given, e.Name()) {
			t.Errorf("%s is not a name of the top level", e.Name())
		}
	}
	for _, name := range given {
		if !slices.Contains(there, name) {
			t.Errorf("%s is missing", name)
		}
	}
}
