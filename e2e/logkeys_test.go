package e2e_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logged is where a call of slog's loose form has its keys: after so many arguments.
var logged = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0,
	"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2, "Log": 3,
}

// TestLogKeysAreTheDocumentedOnes: whoever searches logs by a key finds all that speak of the thing. cmd/fencepost/LOGS.md
// lists the keys; a log line with another one, or a key that no line has any more, fails here.
func TestLogKeysAreTheDocumentedOnes(t *testing.T) {
	root := ".."
	text, err := os.ReadFile(filepath.Join(root, "cmd", "fencepost", "LOGS.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| ((?:`[a-z_]+`(?:, )?)+) \\|").FindAllStringSubmatch(string(text), -1) {
		for _, word := range strings.Split(row[1], ", ") {
			if key := strings.Trim(word, "`"); documented[key] {
				t.Errorf("LOGS.md lists %s twice", key)
			} else {
				documented[key] = true
			}
		}
	}
	// Of slog and of its two handlers.
	used := map[string]bool{"time": true, "level": true, "msg": true}
	places := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "e2e" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case d.IsDir(), !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			skip, ok := logged[selector.Sel.Name]
			if !ok || !logger(selector.X) || len(call.Args) < skip {
				return true
			}
			places++
			args := call.Args[skip:]
			for i := 0; i < len(args); i += 2 {
				literal, ok := args[i].(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING || i+1 == len(args) && !call.Ellipsis.IsValid() {
					t.Errorf("%s: the key of a log line is not a plain string", files.Position(args[i].Pos()))
					return true
				}
				key, _ := strconv.Unquote(literal.Value)
				used[key] = true
				if !documented[key] {
					t.Errorf("%s: log key %q is not in LOGS.md", files.Position(literal.Pos()), key)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for key := range documented {
		if !used[key] && !slices.Contains(foreignKeys, key) {
			t.Errorf("LOGS.md lists %s, which no log line has", key)
		}
	}
	if places < 50 {
		t.Errorf("%d log lines were found: this test no longer recognises them", places)
	}
}

// foreignKeys come from franz-go's logger, which this test does not see.
var foreignKeys = []string{"addr", "broker", "err"}

// logger reports whether an expression is a logger, by its name: log, s.log, c.cfg.Logger, log.With(...), slog.Default().
func logger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "log" || x.Name == "logger" || x.Name == "slog"
	case *ast.SelectorExpr:
		return x.Sel.Name == "log" || x.Sel.Name == "Logger" || x.Sel.Name == "logger"
	case *ast.CallExpr:
		s, ok := x.Fun.(*ast.SelectorExpr)
		return ok && (s.Sel.Name == "With" && logger(s.X) || s.Sel.Name == "logger" || s.Sel.Name == "Default")
	}
	return false
}
