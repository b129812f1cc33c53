package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	superuser = "postgres"
	// poll is how often a server that is coming up or going down is looked at.
	poll = 20 * time.Millisecond
)

// Server is a running Postgres. Its methods are safe for concurrent use.
type Server struct {
	port     int
	password string
	pid      int
	log      string // path of Postgres's log
	done     chan struct{}
	exit     error       // why it ended; readable once done is closed
	stopping atomic.Bool // an end is our own wish
}

// Start starts the server on config.DataDir, making the cluster the first time, and returns when it answers. ctx bounds
// the start only. Errors are ErrVersion, ErrBinaries, ErrDataDir and ErrStart, with what to do in their text.
func Start(ctx context.Context, config Config) (*Server, error) {
	log := config.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c, err := openCluster(config.DataDir)
	if err != nil {
		return nil, err
	}
	if err := c.stopLeftover(ctx, log); err != nil {
		return nil, err
	}
	b, err := find(ctx, c.major, config.DownloadURL, log)
	if err != nil {
		return nil, err
	}
	if c.major == 0 {
		if err := c.initialize(ctx, b, config.NoFsync); err != nil {
			return nil, err
		}
	}

	// A free port can be taken by someone else between the look and the start.
	for try := 0; ; try++ {
		s, err := c.start(ctx, b, config)
		if err == nil {
			log.Debug("postgres is up", "port", s.port, "major", b.major, "pid", s.pid)
			return s, nil
		}
		if config.Port != 0 && !config.AnyPort || try == 4 || !strings.Contains(err.Error(), "in use") {
			return nil, err
		}
		config.Port = 0
	}
}

// start runs the server process once.
func (c *cluster) start(ctx context.Context, b binaries, config Config) (*Server, error) {
	port := config.Port
	if port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("%w: no free port: %w", ErrStart, err)
		}
		port = l.Addr().(*net.TCPAddr).Port
		_ = l.Close()
	}
	logPath := filepath.Join(c.dir, "postgres.log")
	_ = os.Rename(logPath, logPath+".old")
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	defer logFile.Close()

	cmd := exec.Command(b.path("postgres"), append([]string{"-D", c.data}, settings(port, config)...)...)
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	// SIGINT is Postgres's fast shutdown: roll back, checkpoint, go.
	cmd.SysProcAttr = attributes(c.id, syscall.SIGINT)

	s := &Server{port: port, password: c.password, log: logPath, done: make(chan struct{})}
	started := make(chan error, 1)
	go s.own(cmd, c.id, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := s.ready(ctx); err != nil {
		s.stopping.Store(true)
		_ = syscall.Kill(s.pid, syscall.SIGQUIT)
		<-s.done
		return nil, err
	}
	return s, nil
}

// own starts the process and waits for its end, all on one thread.
func (s *Server) own(cmd *exec.Cmd, id identity, started chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	defer close(s.done)
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	s.pid = cmd.Process.Pid
	unguard, err := guard(s.pid, id)
	if err != nil {
		s.stopping.Store(true)
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		started <- err
		return
	}
	defer unguard()
	started <- nil
	err = cmd.Wait()
	if !s.stopping.Load() {
		if err == nil {
			err = errors.New("it exited by itself")
		}
		s.exit = fmt.Errorf("postgres ended: %w: %s", err, tail(s.log))
	}
}

// ready waits until the server answers a query.
func (s *Server) ready(ctx context.Context) error {
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			_, err = conn.Exec(ctx, "select 1")
			_ = conn.Close(ctx)
			if err == nil {
				return nil
			}
		}
		select {
		case <-s.done:
			return fmt.Errorf("%w: %w", ErrStart, s.exit)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w, last: %w", ErrStart, context.Cause(ctx), err)
		case <-time.After(poll):
		}
	}
}

// URL is the address of a database of the server, for a superuser. It has the password in it.
func (s *Server) URL(db string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path:     "/" + db,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is where the server listens on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// PID is the process id of the server.
func (s *Server) PID() int { return s.pid }

// Done is closed when the server has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is why the server ended, nil while it runs and after Stop.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.exit
	default:
		return nil
	}
}

// Stop shuts the server down and waits for its end. When ctx ends first, it is stopped without a checkpoint, which the
// next start makes good. Stopping twice is no error.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	select {
	case <-s.done:
		return nil // its pid may belong to someone else by now
	default:
	}
	for _, step := range []struct {
		signal syscall.Signal
		wait   context.Context
	}{{syscall.SIGINT, ctx}, {syscall.SIGQUIT, nil}, {syscall.SIGKILL, nil}} {
		_ = syscall.Kill(s.pid, step.signal)
		wait, cancel := step.wait, context.CancelFunc(func() {})
		if wait == nil {
			wait, cancel = context.WithTimeout(context.Background(), 5*time.Second)
		}
		select {
		case <-s.done:
			cancel()
			return nil
		case <-wait.Done():
			cancel()
		}
	}
	return fmt.Errorf("postgres process %d does not end", s.pid)
}

// settings are the arguments that configure the server.
func settings(port int, config Config) []string {
	all := map[string]string{
		"port":                    strconv.Itoa(port),
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"logging_collector":       "off",
		"log_destination":         "stderr",
		"timezone":                "UTC",
		"cluster_name":            "fencepost",
	}
	if config.NoFsync {
		all["fsync"], all["full_page_writes"], all["synchronous_commit"] = "off", "off", "off"
	}
	for name, value := range config.Settings {
		all[name] = value
	}
	// In a fixed order, so that two process lists compare.
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	args := make([]string, 0, 2*len(names))
	for _, name := range names {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}

// tail is the end of a log, on one line.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) > 5 {
		lines = lines[len(lines)-5:]
	}
	return strings.Join(lines, " | ")
}
