package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cluster is a data directory: the server's own files in data, owned by who it runs as, and ours beside them.
type cluster struct {
	dir      string
	data     string
	id       identity
	password string
	major    int // 0 until it is made
}

// openCluster makes the directory if there is none and reads what is in it.
func openCluster(dir string) (*cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	c := &cluster{dir: dir, data: filepath.Join(dir, "cluster")}
	if c.id, err = chooseIdentity(c.data); err != nil {
		return nil, err
	}
	if c.id.closed, err = c.id.closedTo(dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	if c.id.closed != "" && !canPass() {
		return nil, fmt.Errorf("%w: Postgres refuses to run as root, and %s, which runs it instead, may not enter %s; choose a data directory outside of it, for example below /var/tmp",
			ErrDataDir, c.id.name, c.id.closed)
	}

	version, err := os.ReadFile(filepath.Join(c.data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	if c.major, err = strconv.Atoi(strings.TrimSpace(string(version))); err != nil {
		return nil, fmt.Errorf("%w: %s says %q", ErrDataDir, filepath.Join(c.data, "PG_VERSION"), version)
	}
	password, err := os.ReadFile(c.passwordFile())
	if err != nil {
		return nil, fmt.Errorf("%w: the password of its database is gone: %w", ErrDataDir, err)
	}
	c.password = strings.TrimSpace(string(password))
	return c, nil
}

func (c *cluster) passwordFile() string { return filepath.Join(c.dir, "password") }

// initialize makes the cluster under another name and renames it at the end: a half-made one is never taken for whole.
func (c *cluster) initialize(ctx context.Context, b binaries, noSync bool) error {
	c.password = rand.Text()
	if err := os.WriteFile(c.passwordFile(), []byte(c.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	making := c.data + ".new"
	if err := os.RemoveAll(making); err != nil {
		return fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	if err := os.Mkdir(making, 0o700); err != nil {
		return fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	// initdb reads the password from a file, as the user it runs as.
	handover := filepath.Join(c.dir, "password.initdb")
	defer os.Remove(handover)
	if err := os.WriteFile(handover, []byte(c.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	if err := errors.Join(c.id.own(making), c.id.own(handover)); err != nil {
		return fmt.Errorf("%w: %w", ErrDataDir, err)
	}

	args := []string{"-D", making, "-U", superuser, "--pwfile", handover, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"}
	if noSync {
		args = append(args, "--no-sync")
	}
	cmd := command(ctx, b.path("initdb"), args...)
	cmd.SysProcAttr = attributes(c.id, syscall.SIGKILL)
	// The thread must live as long as the child; see attributes.
	runtime.LockOSThread()
	out, err := cmd.CombinedOutput()
	runtime.UnlockOSThread()
	if err != nil {
		return fmt.Errorf("%w: initdb: %w: %s", ErrStart, err, lastLine(out))
	}
	if err := os.Rename(making, c.data); err != nil {
		return fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	c.major = b.major
	return nil
}

// stopLeftover ends a server that a killed process left running on this cluster. It is judged by the process itself and
// not by its number alone, which may long be another program's.
func (c *cluster) stopLeftover(ctx context.Context, log *slog.Logger) error {
	if c.major == 0 {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(c.data, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 || !isServerOf(pid, c.data) {
		return nil // Postgres itself clears a stale file away
	}
	log.Info("stopping the Postgres that an earlier process left on this data directory", "pid", pid)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("%w: a Postgres with process id %d uses it and cannot be stopped: %w", ErrDataDir, pid, err)
		}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			if !isServerOf(pid, c.data) {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%w: waiting for Postgres process %d to end: %w", ErrStart, pid, context.Cause(ctx))
			case <-time.After(poll):
			}
		}
	}
	return fmt.Errorf("%w: a Postgres with process id %d uses it and does not end", ErrDataDir, pid)
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
