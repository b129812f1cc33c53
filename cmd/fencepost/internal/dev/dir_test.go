package dev

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestOpenTwiceIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Errorf("second open: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatalf("after close: %v", err)
	}
	_ = again.Close()
}

func TestPortsAndKeyAreKept(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := d.APIKey(); key != "" || err != nil {
		t.Errorf("a new directory has key %q, %v", key, err)
	}
	if err := errors.Join(d.RememberPort("kafka", 4711), d.KeepAPIKey("fp_x"), d.Close()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(path, keyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", info.Mode(), err)
	}
	if d, err = Open(path); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if key, err := d.APIKey(); d.Port("kafka") != 4711 || key != "fp_x" || err != nil {
		t.Errorf("port %d, key %q, %v", d.Port("kafka"), key, err)
	}
}

func TestTemporaryDirectoriesGo(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	d, err := Open("")
	if err != nil {
		t.Fatal(err)
	}
	// One whose process was killed a while ago, and two that are none of ours to remove: young, and not from here.
	for name, age := range map[string]time.Duration{"fencepost-dev-old": time.Hour, "fencepost-dev-young": 0} {
		path := filepath.Join(temp, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(path, "format")
		if err := os.WriteFile(file, []byte("1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(temp, "fencepost-dev-foreign"), 0o755); err != nil {
		t.Fatal(err)
	}
	// d is old by now, but locked.
	if err := os.Chtimes(d.Path("format"), time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	removeAbandoned()
	for name, want := range map[string]bool{
		"fencepost-dev-old": false, "fencepost-dev-young": true, "fencepost-dev-foreign": true, filepath.Base(d.path): true,
	} {
		if _, err := os.Stat(filepath.Join(temp, name)); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", name, err == nil, want)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.path); err == nil {
		t.Error("a temporary directory stays")
	}
}

func TestHalfMadeDirectoryIsUsable(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "lock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = d.Close()
}
