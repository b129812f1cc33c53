package postgres

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/tasks/postgres/pgtest"
)

// hinting runs hints of a fresh database until the test ends.
func hinting(t *testing.T) *Hints {
	t.Helper()
	config, err := pgx.ParseConfig(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	h := NewHints(config, nil)
	background(t, h.Run)
	return h
}

// background runs f until the test ends and waits for it.
func background(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// ear listens on channel; what it hears arrives in the channel it returns.
func ear(t *testing.T, h *Hints, channel string) <-chan struct{} {
	t.Helper()
	heard := make(chan struct{}, 1000)
	background(t, func(ctx context.Context) error {
		return h.Listen(ctx, channel, func() { heard <- struct{}{} })
	})
	await(t, heard) // connected
	return heard
}

func await(t *testing.T, heard <-chan struct{}) {
	t.Helper()
	select {
	case <-heard:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was heard")
	}
}

func TestAHintReachesListenersOfItsChannelOnly(t *testing.T) {
	h := hinting(t)
	handoffs, finished := ear(t, h, ChannelHandoffs), ear(t, h, ChannelFinished)
	h.Notify(ChannelHandoffs)
	await(t, handoffs)
	h.Notify(ChannelFinished)
	await(t, finished)
	if n := len(handoffs) + len(finished); n != 0 {
		t.Errorf("%d hints more than were sent", n)
	}
}

func TestManyHintsBecomeFew(t *testing.T) {
	h := hinting(t)
	handoffs := ear(t, h, ChannelHandoffs)
	const calls = 100_000
	for range calls {
		h.Notify(ChannelHandoffs)
	}
	await(t, handoffs)
	finished := ear(t, h, ChannelFinished)
	h.Notify(ChannelFinished)
	await(t, finished) // and with it all that was asked for before
	if n := len(handoffs); n > calls/100 {
		t.Errorf("%d notifications for %d calls", n, calls)
	}
}

func TestNotifyNeverWaits(t *testing.T) {
	// A server that takes connections and says nothing.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	config, err := pgx.ParseConfig("postgres://x@" + silent.Addr().String() + "/x?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	h := NewHints(config, nil)
	background(t, h.Run)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			h.Notify(ChannelHandoffs)
		}
	}()
	await(t, done)
}

func TestListenersAndSendersConnectAgain(t *testing.T) {
	h := hinting(t)
	handoffs := ear(t, h, ChannelHandoffs)
	h.Notify(ChannelHandoffs)
	await(t, handoffs)
	other, err := pgx.ConnectConfig(t.Context(), h.config.Copy())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(t.Context())
	if _, err := other.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	await(t, handoffs) // connected again: hints may have been lost
	for end := time.Now().Add(30 * time.Second); len(handoffs) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no hint gets through any more")
		}
		h.Notify(ChannelHandoffs) // the first ones are lost with the old connection
	}
}
