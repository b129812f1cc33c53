package procs

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/tasks/postgres/embedded"
)

// Server is a Postgres of one test's own, with fsync on. Its address and its data stay the same over Kill and Start.
type Server struct {
	URL string

	config  embedded.Config
	running *embedded.Server
}

func startServer(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "fencepost-procs-pg-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{config: embedded.Config{DataDir: dir, Settings: map[string]string{"max_connections": "200"}}}
	t.Cleanup(func() {
		if s.running != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := s.running.Stop(ctx); err != nil {
				t.Errorf("postgres: %v", err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("postgres: %v", err)
		}
	})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	s.config.Port = s.running.Port()
	s.URL = s.running.URL("postgres")
	return s
}

// Start starts it, again after Kill, and waits until it answers.
func (s *Server) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		running, err := embedded.Start(ctx, s.config)
		if err == nil {
			s.running = running
			return nil
		}
		// The processes of the one that was killed see that it is gone only by and by, and until then hold its memory.
		select {
		case <-ctx.Done():
			return fmt.Errorf("postgres: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Kill is kill -9 of the postmaster. Its processes end when they see that it is gone.
func (s *Server) Kill() error {
	if err := syscall.Kill(s.running.PID(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	<-s.running.Done()
	s.running = nil
	return nil
}
