package broker

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is one broker, whatever runs it. Addresses and data stay the same over Kill or Stop and Start.
type Server interface {
	Addrs() []string
	Start(ctx context.Context) error  // again, after Kill or Stop; does not wait until the broker is ready
	Stop(ctx context.Context) error   // cleanly
	Kill(ctx context.Context) error   // as kill -9 does
	Pause(ctx context.Context) error  // stands still, connections stay open
	Resume(ctx context.Context) error // goes on
	Alive() bool                      // the process or container is there, maybe paused
	Log() string                      // the end of what it logged
	Close() error                     // ends it and removes its data
}

// Broker is a running Kafka, bound to a test: whatever goes wrong fails that test.
type Broker struct {
	Addrs []string // host:port

	t      testing.TB
	server Server // nil: somebody else's, named in the environment
	shared bool
}

// startTimeout bounds a start until the broker answers, also where the jars must be fetched first.
const startTimeout = 3 * time.Minute

// Start runs a broker of the test's own, which it may stop and kill. It ends with the test.
func Start(t testing.TB, opts ...Option) *Broker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	server, err := open(ctx, opts)
	if err != nil {
		t.Fatalf("broker: %v", err)
	}
	b := &Broker{Addrs: server.Addrs(), t: t, server: server}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the broker's log ends with:\n%s", server.Log())
		}
		if err := server.Close(); err != nil {
			t.Errorf("broker: %v", err)
		}
	})
	return b
}

// shared is the test binary's broker: made by the first Shared, ended by closeShared.
var shared struct {
	sync.Mutex
	server Server
	err    error
}

// Shared returns the broker that all tests of this binary share. Tests keep apart by topics and groups of their own.
func Shared(t testing.TB) *Broker {
	t.Helper()
	if addrs := os.Getenv("FENCEPOST_TEST_KAFKA"); addrs != "" {
		b := &Broker{Addrs: strings.Split(addrs, ","), t: t, shared: true}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := ready(ctx, b.Addrs, nil); err != nil {
			t.Fatalf("broker named by FENCEPOST_TEST_KAFKA: %v", err)
		}
		return b
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		// Not the test's context: the broker outlives the first test that asks for it.
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		shared.server, shared.err = open(ctx, nil)
	}
	if shared.err != nil {
		t.Fatalf("broker: %v", shared.err)
	}
	return &Broker{Addrs: shared.server.Addrs(), t: t, server: shared.server, shared: true}
}

func closeShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return nil
	}
	err := shared.server.Close()
	shared.server = nil
	return err
}

// Kill ends the broker as a crash would.
func (b *Broker) Kill() { b.t.Helper(); b.do("kill", Server.Kill) }

// Stop ends the broker cleanly.
func (b *Broker) Stop() { b.t.Helper(); b.do("stop", Server.Stop) }

// Pause makes the broker stand still without closing a connection.
func (b *Broker) Pause() { b.t.Helper(); b.do("pause", Server.Pause) }

// Resume ends a Pause.
func (b *Broker) Resume() { b.t.Helper(); b.do("resume", Server.Resume) }

// Restart starts a broker that Kill or Stop ended, on its address and data, and waits until it serves topics and groups.
func (b *Broker) Restart() {
	b.t.Helper()
	b.do("restart", func(s Server, ctx context.Context) error {
		if s.Alive() {
			if err := s.Stop(ctx); err != nil {
				return err
			}
		}
		if err := s.Start(ctx); err != nil {
			return err
		}
		return ready(ctx, b.Addrs, s)
	})
}

// Log returns the end of what the broker logged.
func (b *Broker) Log() string {
	if b.server == nil {
		return ""
	}
	return b.server.Log()
}

func (b *Broker) do(what string, f func(Server, context.Context) error) {
	b.t.Helper()
	if b.shared {
		b.t.Fatalf("broker: cannot %s the broker that other tests share; use Start", what)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	if err := f(b.server, ctx); err != nil {
		b.t.Fatalf("broker: %s: %v", what, err)
	}
}

// open starts a broker and waits until it is ready.
func open(ctx context.Context, opts []Option) (Server, error) {
	var s settings
	for _, o := range opts {
		o(&s)
	}
	start, err := choose(ctx)
	if err != nil {
		return nil, err
	}
	// Ports are chosen free and then bound by the broker, so another process may be faster: try again with others.
	for try := 1; ; try++ {
		server, err := start(ctx, s.config())
		if err == nil {
			if err = ready(ctx, server.Addrs(), server); err == nil {
				return server, nil
			}
			err = fmt.Errorf("%w; its log ends with:\n%s", err, server.Log())
			_ = server.Close()
		}
		if try == 3 || ctx.Err() != nil {
			return nil, err
		}
	}
}

// Opener starts a broker with additional settings, by their names in server.properties, and waits for nothing.
type Opener func(ctx context.Context, config map[string]string) (Server, error)

// container is e2e/broker/container, where a test binary imports it.
var container struct {
	open    Opener
	usable  func(ctx context.Context) error
	enabled bool
}

// RegisterContainer is called by e2e/broker/container when a test binary imports it: testcontainers brings many
// dependencies that no other importer of this package is to pay for. usable says why containers cannot be had.
func RegisterContainer(open Opener, usable func(ctx context.Context) error) {
	container.open, container.usable, container.enabled = open, usable, true
}

func choose(ctx context.Context) (Opener, error) {
	mode := os.Getenv("FENCEPOST_TEST_KAFKA_MODE")
	switch mode {
	case "", "auto":
		if container.enabled && container.usable(ctx) == nil {
			return container.open, nil
		}
		return openJVM, nil
	case "jars":
		return openJVM, nil
	case "container":
		if !container.enabled {
			return nil, fmt.Errorf("FENCEPOST_TEST_KAFKA_MODE=container, but this test binary does not import e2e/broker/container")
		}
		if err := container.usable(ctx); err != nil {
			return nil, fmt.Errorf("FENCEPOST_TEST_KAFKA_MODE=container: %w", err)
		}
		return container.open, nil
	}
	return nil, fmt.Errorf("FENCEPOST_TEST_KAFKA_MODE=%q: want jars, container or nothing", mode)
}
