package procs

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/e2e/internal/child"
	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// Node is one process of an installation. Its addresses stay the same over restarts.
type Node struct {
	Name  string
	API   string // http://host:port
	Admin string

	// What stands between a proxied node and the rest; nil for others.
	Kafka, Postgres, LLM *proxy.Proxy

	t      testing.TB
	args   []string
	log    string
	binary string   // empty: the program under test
	env    []string // beside the environment of all

	mu    sync.Mutex
	proc  *child.Child // nil before the first start
	kills int
}

// Node describes a process with the given roles and does not start it.
func (w *World) Node(name, roles string, flags ...string) *Node {
	w.t.Helper()
	return w.node(name, roles, strings.Join(w.Brokers, ","), w.PostgresURL, w.Model.URL, flags)
}

func (w *World) node(name, roles, brokers, postgres, model string, flags []string) *Node {
	api, admin := freeAddress(w.t), freeAddress(w.t)
	n := newNode(w.t, name, append([]string{"run", "--roles", roles,
		"--kafka-brokers", brokers, "--kafka-topic", w.Topic, "--kafka-group", w.Group,
		"--postgres-url", postgres, "--llm-provider", "sim", "--llm-base-url", model,
		"--listen", api, "--admin-listen", admin, "--log-format", "text"}, append(w.flags[:len(w.flags):len(w.flags)], flags...)...))
	n.API, n.Admin = "http://"+api, "http://"+admin
	return n
}

func newNode(t testing.TB, name string, args []string) *Node {
	t.Helper()
	n := &Node{Name: name, t: t, args: args, log: filepath.Join(t.TempDir(), name+".log")}
	t.Cleanup(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.proc != nil && n.proc.Alive() {
			_ = n.proc.Signal(syscall.SIGKILL)
			<-n.proc.Done()
		}
		if t.Failed() {
			t.Logf("the log of %s ends with:\n%s", n.Name, child.Tail(n.log, 4<<10))
		}
	})
	return n
}

// Start starts the process and does not wait for anything.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc != nil && n.proc.Alive() {
		return fmt.Errorf("%s is running", n.Name)
	}
	path, err := n.binary, error(nil)
	if path == "" {
		path, err = binary()
	}
	if err != nil {
		return err
	}
	n.proc, err = child.Start(n.log, append(environment(), n.env...), path, n.args...)
	return err
}

// WaitReady waits until the process says that its roles can work.
func (n *Node) WaitReady(ctx context.Context) error {
	var last error
	for {
		status, _, err := get(ctx, n.Admin+"/readyz")
		if err == nil && status == http.StatusOK {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("/readyz answers %d", status)
		}
		last = err
		if !n.Alive() {
			return fmt.Errorf("%s has ended with code %d before it was ready:\n%s", n.Name, n.process().ExitCode(), child.Tail(n.log, 2<<10))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", n.Name, last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kill is kill -9. A process that has ended by itself is an error: nothing of ours may do that.
func (n *Node) Kill() error {
	p := n.process()
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("%s had ended by itself with code %d", n.Name, p.ExitCode())
	}
	<-p.Done()
	n.mu.Lock()
	n.kills++
	n.mu.Unlock()
	return nil
}

// Stop is SIGTERM; it waits for the end and returns the exit code.
func (n *Node) Stop(ctx context.Context) (int, error) {
	p := n.process()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("%s had ended by itself with code %d", n.Name, p.ExitCode())
	}
	select {
	case <-p.Done():
		return p.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s does not end: %w", n.Name, context.Cause(ctx))
	}
}

// Pause is SIGSTOP: the process stands still and keeps its connections.
func (n *Node) Pause() error { return n.process().Signal(syscall.SIGSTOP) }

// Resume is SIGCONT.
func (n *Node) Resume() error { return n.process().Signal(syscall.SIGCONT) }

// Alive reports whether the process is there.
func (n *Node) Alive() bool { p := n.process(); return p != nil && p.Alive() }

// Pid is the process id of the present or last life.
func (n *Node) Pid() int { return n.process().Pid() }

// Kills counts the kills.
func (n *Node) Kills() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kills
}

// Log returns the end of what all its lives have written.
func (n *Node) Log() string { return child.Tail(n.log, 1<<20) }

func (n *Node) process() *child.Child {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}

// freeAddress finds a port of 127.0.0.1 that nobody listens on now. Not one of the range that outgoing connections
// draw from: between two lives of a node such a connection could take it.
func freeAddress(t testing.TB) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for ports.next < 32000 {
		ports.next++
		addr := fmt.Sprintf("127.0.0.1:%d", ports.next)
		l, err := net.Listen("tcp", addr)
		if err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port between 21000 and 32000")
	return ""
}

var ports = struct {
	sync.Mutex
	next int
}{next: 21000}
