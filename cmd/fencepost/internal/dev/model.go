package dev

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/fencepost/fencepost/llm/sim"
)

// Model is the simulated model behind HTTP.
type Model struct {
	sim      *sim.Server
	server   *http.Server
	listener net.Listener
	done     chan struct{}
}

// StartModel starts it with its ledger in the directory, at the port it had there last time if that is free.
func StartModel(d *Dir, log *slog.Logger) (*Model, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(d.Port("llm"))))
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, err
	}
	m, err := ServeModel(l, sim.Config{Ledger: d.Path("model-ledger.jsonl"), Logger: log})
	if err != nil {
		return nil, err
	}
	if err := d.RememberPort("llm", l.Addr().(*net.TCPAddr).Port); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// ServeModel serves the simulated model on l, which it owns from here on.
func ServeModel(l net.Listener, config sim.Config) (*Model, error) {
	s, err := sim.New(config)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	m := &Model{
		sim: s, listener: l, done: make(chan struct{}),
		// No timeout of an answer: a rule may let one hang.
		server: &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10},
	}
	go func() {
		defer close(m.done)
		_ = m.server.Serve(l)
	}()
	return m, nil
}

// URL is the origin of the model.
func (m *Model) URL() string { return "http://" + m.listener.Addr().String() }

// Close ends open calls and stops it.
func (m *Model) Close() error {
	// First the simulator, which lets go of calls that hang.
	err := m.sim.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if m.server.Shutdown(ctx) != nil {
		err = errors.Join(err, m.server.Close())
	}
	<-m.done
	return err
}
