package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseRoles(t *testing.T) {
	got, err := ParseRoles([]string{"worker", " api", "worker"})
	if diff := cmp.Diff([]Role{Worker, API}, got); diff != "" || err != nil {
		t.Errorf("%s %v", diff, err)
	}
	for _, words := range [][]string{nil, {"cook"}, {""}} {
		if _, err := ParseRoles(words); err == nil {
			t.Errorf("%q passed", words)
		}
	}
}

func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = listen(taken.Addr().String(), "listen", false)
	var p *Problem
	if !errors.As(err, &p) || !errors.Is(err, ErrListen) || !strings.Contains(p.Hint, "--listen") {
		t.Errorf("taken: %v", err)
	}
	l, err := listen(taken.Addr().String(), "listen", true)
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	defer l.Close()
	if l.Addr().(*net.TCPAddr).Port <= taken.Addr().(*net.TCPAddr).Port {
		t.Errorf("next of %s is %s", taken.Addr(), l.Addr())
	}
	for _, address := range []string{"", "8080", "127.0.0.1:http!", "127.0.0.1:99999"} {
		if l, err := listen(address, "listen", true); err == nil {
			l.Close()
			t.Errorf("%q passed", address)
		}
	}
}

func TestReadinessNamesWhatIsMissing(t *testing.T) {
	r := &readiness{state: "starting", checks: map[string]func(context.Context) error{}}
	r.add("postgres", func(context.Context) error { return nil })
	if got := r.report(t.Context(), AllRoles); got.Ready || got.State != "starting" || got.Checks["postgres"] != "ok" {
		t.Errorf("%+v", got)
	}
	r.set("")
	if got := r.report(t.Context(), AllRoles); !got.Ready || got.State != "running" {
		t.Errorf("%+v", got)
	}
	r.add("worker", func(context.Context) error { return errors.New("not joined") })
	r.detail("worker", func() map[string]any { return map[string]any{"partitions": 3} })
	got := r.report(t.Context(), AllRoles)
	if p := got.Parts; len(p) != 2 || !p[0].Ready || p[0].Name != "postgres" || p[1].Ready || p[1].Error != "not joined" || p[1].Detail["partitions"] != 3 {
		t.Errorf("%+v", got.Parts)
	}
	if got := r.report(t.Context(), AllRoles); got.Ready || got.Checks["worker"] != "not joined" {
		t.Errorf("%+v", got)
	}
}

func testNode() *Node {
	return &Node{
		config: Config{Logger: slog.New(slog.DiscardHandler)}, failed: make(chan error, 8),
		ready: &readiness{checks: map[string]func(context.Context) error{}},
	}
}

func TestAPartThatEndsByItselfEndsTheNode(t *testing.T) {
	n := testNode()
	stopped := false
	n.services = append(n.services,
		n.begin("steady", func(ctx context.Context) error { <-ctx.Done(); stopped = true; return nil }),
		n.begin("weak", func(context.Context) error { return errors.New("no more") }))
	if err := n.Run(t.Context()); err == nil || err.Error() != "weak ended: no more" {
		t.Errorf("got %v", err)
	}
	if !stopped {
		t.Error("the other part was not stopped")
	}
}

func TestAStopThatWasAskedForIsNoError(t *testing.T) {
	n := testNode()
	n.services = append(n.services, n.begin("steady", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Run(ctx); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestAwait(t *testing.T) {
	c := Config{StartTimeout: time.Minute, Progress: func(string, ...any) {}}
	final := errors.New("for good")
	if err := c.await(t.Context(), "x", func(context.Context) (bool, error) { return false, final }); err != final {
		t.Errorf("got %v", err)
	}
	tries := 0
	err := c.await(t.Context(), "x", func(context.Context) (bool, error) {
		if tries++; tries < 2 {
			return true, errors.New("not yet")
		}
		return false, nil
	})
	if err != nil || tries != 2 {
		t.Errorf("%d tries, %v", tries, err)
	}
	// The time is over: the reason is what the tries said, not the clock.
	c.StartTimeout = time.Nanosecond
	if err := c.await(t.Context(), "x", func(context.Context) (bool, error) { return true, final }); err != final {
		t.Errorf("got %v", err)
	}
	stop := errors.New("asked to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	c.StartTimeout = time.Minute
	if err := c.await(ctx, "x", func(context.Context) (bool, error) { return true, final }); err != stop {
		t.Errorf("got %v", err)
	}
}
