package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/tasks/postgres/embedded"
)

// childEnv makes the test binary itself the process that starts a server and is killed.
const childEnv = "EMBEDDED_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func child(dir string) {
	s, err := embedded.Start(context.Background(), embedded.Config{DataDir: dir, NoFsync: true})
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(strconv.Itoa(s.PID()) + "\n")
	select {}
}

func start(t *testing.T, dir string) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), embedded.Config{DataDir: dir, NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

func exec1(t *testing.T, s *embedded.Server, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// TestDataStaysOverARestart also runs below a folder that other users may not enter, as t.TempDir is.
func TestDataStaysOverARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pg")
	s := start(t, dir)
	exec1(t, s, "create table kept (n int)")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if err := s.Err(); err != nil {
		t.Errorf("an end that was asked for is reported as %v", err)
	}
	exec1(t, start(t, dir), "insert into kept values (1)")
}

func TestPasswordIsWantedAndPrivate(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	info, err := os.Stat(filepath.Join(dir, "password"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("password file has mode %v", info.Mode())
	}
	config, err := pgx.ParseConfig(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	config.Password = "guess"
	if conn, err := pgx.ConnectConfig(t.Context(), config); err == nil {
		conn.Close(t.Context())
		t.Error("a wrong password was let in")
	}
}

func TestServerThatDiesIsReported(t *testing.T) {
	s := start(t, t.TempDir())
	if err := syscall.Kill(s.PID(), syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if s.Err() == nil {
		t.Error("no error for a server that ended by itself")
	}
}

func TestNoServerOutlivesItsParent(t *testing.T) {
	dir := t.TempDir()
	cmd, pid := startChild(t, dir)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for end := time.Now().Add(20 * time.Second); alive(pid); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("postgres %d outlived its parent", pid)
		}
	}
}

// TestStartTakesOverFromAKilledProcess does not wait for the end of the old server; Start has to.
func TestStartTakesOverFromAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	cmd, pid := startChild(t, dir)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	exec1(t, start(t, dir), "select 1")
	if alive(pid) {
		t.Errorf("the old server %d still runs", pid)
	}
}

func TestForeignProcessInPidFileIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()
	file := filepath.Join(dir, "cluster", "postmaster.pid")
	if err := os.WriteFile(file, []byte(strconv.Itoa(sleeper.Process.Pid)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// Whether Postgres itself starts beside such a file is its own decision.
	if s, err := embedded.Start(t.Context(), embedded.Config{DataDir: dir, NoFsync: true}); err == nil {
		_ = s.Stop(t.Context())
	}
	if !alive(sleeper.Process.Pid) {
		t.Error("a process that is no Postgres was stopped")
	}
}

func TestOtherMajorVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "cluster"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cluster/PG_VERSION": "99\n", "password": "x\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := embedded.Start(t.Context(), embedded.Config{DataDir: dir})
	if !errors.Is(err, embedded.ErrVersion) || !strings.Contains(err.Error(), "Postgres 99") {
		t.Errorf("got %v", err)
	}
}

func TestPortTaken(t *testing.T) {
	s := start(t, t.TempDir())
	config, err := pgx.ParseConfig(s.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = embedded.Start(t.Context(), embedded.Config{DataDir: t.TempDir(), NoFsync: true, Port: int(config.Port)})
	if !errors.Is(err, embedded.ErrStart) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
}

func startChild(t *testing.T, dir string) (*exec.Cmd, int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return cmd, pid
}

func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil {
		return false
	}
	// A container without an init process may never reap an orphan.
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
