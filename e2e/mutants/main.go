package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	only := flag.String("run", "", "only mutants whose name contains this")
	verbose := flag.Bool("v", false, "print what the tests say")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	survived, err := run(ctx, *only, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(2)
	}
	if survived > 0 {
		fmt.Fprintf(os.Stderr, "%d mutants were not noticed\n", survived)
		os.Exit(1)
	}
}

// run tries the mutants one after the other, in one copy of the tree, and returns how many were not noticed.
func run(ctx context.Context, only string, verbose bool) (survived int, err error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "fencepost-mutants-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(root, dir); err != nil {
		return 0, err
	}
	n := 0
	for _, m := range mutants {
		if !strings.Contains(m.name, only) {
			continue
		}
		n++
		began := time.Now()
		noticed, output, err := try(ctx, dir, m)
		if err != nil {
			return survived, fmt.Errorf("%s: %w", m.name, err)
		}
		word := "noticed"
		if !noticed {
			word = "NOT NOTICED"
			survived++
		}
		fmt.Printf("%-12s %-55s %-4s go test %s (%.0f s)\n", word, m.name, m.invariant, strings.Join(m.test, " "), time.Since(began).Seconds())
		if verbose || !noticed {
			fmt.Println(output)
		}
	}
	if n == 0 {
		return 0, fmt.Errorf("no mutant's name contains %q", only)
	}
	return survived, nil
}

// try applies m, runs its test and takes m back.
func try(ctx context.Context, dir string, m mutant) (noticed bool, output string, err error) {
	originals := map[string][]byte{}
	defer func() {
		for path, content := range originals {
			err = errors.Join(err, os.WriteFile(path, content, 0o600))
		}
	}()
	for _, e := range m.edits {
		path := filepath.Join(dir, e.file)
		content, err := os.ReadFile(path)
		if err != nil {
			return false, "", err
		}
		if originals[path] == nil {
			originals[path] = content
		}
		mutated, err := e.apply(string(content))
		if err != nil {
			return false, "", err
		}
		if err := os.WriteFile(path, []byte(mutated), 0o600); err != nil {
			return false, "", err
		}
	}
	// A mutant that does not compile would be noticed by anything.
	if output, err := goTest(ctx, dir, m.test[0], "-run=^$"); err != nil {
		return false, output, fmt.Errorf("does not compile: %w\n%s", err, output)
	}
	output, err = goTest(ctx, dir, m.test...)
	switch {
	case err == nil:
		return false, output, nil
	case strings.Contains(output, "--- FAIL: "):
		return true, output, nil
	}
	return false, output, fmt.Errorf("its test could not be run: %w\n%s", err, output)
}

func (e edit) apply(content string) (string, error) {
	if n := strings.Count(content, e.old); n != 1 {
		return "", fmt.Errorf("%s has the text %d times, not once: %q", e.file, n, e.old)
	}
	return strings.Replace(content, e.old, e.new, 1), nil
}

// goTest trims paths, so that what was built in another folder is found in the cache.
func goTest(ctx context.Context, dir string, args ...string) (string, error) {
	run := exec.CommandContext(ctx, "go", append([]string{"test", "-trimpath", "-count=1", "-timeout=10m"}, args...)...)
	run.Dir = dir
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) } // it has tests of its own to end
	output, err := run.CombinedOutput()
	return string(output), err
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// copyTree copies what is needed to build and test: no history, no tools.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && rel != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), content, info.Mode().Perm())
	})
}
