package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// format is the version of the directory's layout: bump it when an older program could not read what is written.
const format = 1

// tempPattern names temporary directories.
const tempPattern = "fencepost-dev-"

var (
	// ErrLocked: another process uses the directory.
	ErrLocked = errors.New("data directory is in use")
	// ErrFormat: the directory was written by a newer program, or is none of ours.
	ErrFormat = errors.New("not a data directory that this program can use")
)

// Dir is an open data directory.
type Dir struct {
	path string
	lock *os.File
	temp bool

	mu    sync.Mutex // the parts start side by side
	ports map[string]int
}

// Open makes or opens the directory at path; an empty path is a temporary one that Close removes.
func Open(path string) (*Dir, error) {
	temp := path == ""
	if temp {
		removeAbandoned()
		var err error
		if path, err = os.MkdirTemp("", tempPattern); err != nil {
			return nil, err
		}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// Others may pass through: Postgres may run as another user. What is secret in it has a mode of its own.
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	if temp {
		if err := os.Chmod(path, 0o711); err != nil {
			return nil, err
		}
	}
	d := &Dir{path: path, temp: temp, ports: map[string]int{}}
	if err := d.check(); err != nil {
		return nil, err
	}
	if err := d.acquire(); err != nil {
		return nil, err
	}
	if err := d.write("format", []byte(strconv.Itoa(format)+"\n"), 0o644); err != nil {
		_ = d.lock.Close()
		return nil, err
	}
	if text, err := os.ReadFile(d.Path("ports.json")); err == nil {
		// Ports are a convenience: what cannot be read is chosen anew.
		_ = json.Unmarshal(text, &d.ports)
	}
	return d, nil
}

// check refuses a directory of a newer program, and one with other things in it.
func (d *Dir) check() error {
	text, err := os.ReadFile(d.Path("format"))
	if err == nil {
		v, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return fmt.Errorf("%w: %s says %q", ErrFormat, d.Path("format"), text)
		}
		if v > format {
			return fmt.Errorf("%w: %s has format %d, this program knows up to %d: use the newer fencepost that wrote it, or another directory",
				ErrFormat, d.path, v, format)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "lock" { // a start that was killed between the lock and the format
			return fmt.Errorf("%w: %s is not empty and was not made by fencepost dev: choose an empty or new directory", ErrFormat, d.path)
		}
	}
	return nil
}

// acquire takes the lock, or says who has it.
func (d *Dir) acquire() error {
	f, err := os.OpenFile(d.Path("lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		owner, _ := os.ReadFile(f.Name())
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("%w: %s is used by process %s", ErrLocked, d.path, strings.TrimSpace(string(owner)))
		}
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	d.lock = f
	return nil
}

// Path is a path inside the directory.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Temporary reports whether Close removes the directory.
func (d *Dir) Temporary() bool { return d.temp }

// Port is the port that name had last time, 0 at first.
func (d *Dir) Port(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ports[name]
}

// RememberPort keeps a port for the next start, so that what was configured against this one goes on working.
func (d *Dir) RememberPort(name string, port int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ports[name] == port {
		return nil
	}
	d.ports[name] = port
	text, err := json.Marshal(d.ports)
	if err != nil {
		return err
	}
	return d.write("ports.json", append(text, '\n'), 0o644)
}

// write replaces a file at once, so that a kill leaves the old one or the new one.
func (d *Dir) write(name string, text []byte, mode fs.FileMode) error {
	tmp := d.Path(name + ".new")
	if err := os.WriteFile(tmp, text, mode); err != nil {
		return err
	}
	return os.Rename(tmp, d.Path(name))
}

// Close gives the directory up, and removes it when it is temporary.
func (d *Dir) Close() error {
	var err error
	if d.temp {
		err = os.RemoveAll(d.path)
	}
	return errors.Join(err, d.lock.Close())
}

// removeAbandoned removes temporary directories whose process was killed. A young one may belong to a Postgres that is
// still on its way out.
func removeAbandoned() {
	all, _ := filepath.Glob(filepath.Join(os.TempDir(), tempPattern+"*"))
	for _, path := range all {
		info, err := os.Stat(filepath.Join(path, "format"))
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		d := &Dir{path: path}
		if d.acquire() == nil {
			_ = os.RemoveAll(path)
			_ = d.lock.Close()
		}
	}
}
