package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source answers as it is told.
type source struct {
	lag    Lag
	work   Work
	money  Money
	outbox Outbox
	gate   Gate
	task   Task
	err    error
	hold   chan struct{} // a reading of the lag waits for it
	reads  atomic.Int64
}

func (s *source) all() Sources {
	return Sources{Lag: s, Work: s, Money: s, Outbox: s, Gate: s, Tasks: s}
}

func (s *source) Lag(ctx context.Context) (Lag, error) {
	s.reads.Add(1)
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return Lag{}, context.Cause(ctx)
		}
	}
	return s.lag, s.err
}
func (s *source) Work(context.Context) (Work, error)         { return s.work, s.err }
func (s *source) Money(context.Context) (Money, error)       { return s.money, s.err }
func (s *source) Outbox(context.Context) (Outbox, error)     { return s.outbox, s.err }
func (s *source) Gate() Gate                                 { return s.gate }
func (s *source) Task(context.Context, string) (Task, error) { return s.task, s.err }

func healthy() *source {
	now := time.Now()
	return &source{
		lag: Lag{At: now, Group: "g", Topic: "t", State: "Stable", Members: 1, Offsets: "kafka", Status: "OK", Complete: true,
			Partitions: []Partition{{Partition: 0, Status: "OK", Member: "w", Committed: 5, Position: 5, End: 5, ETASeconds: -1}}},
		work:  Work{Unfinished: []Count{{"queued", 0}, {"running", 0}}, UnfinishedBound: 50_000, Tasks: 5, Attempts: 5, ByStatus: []Count{{"completed", 5}}, ByOutcome: []Count{{"accepted", 5}}},
		money: Money{Day: now, Complete: true, PicoUSD: 1_500_000_000_000, Attempts: 5},
		gate:  Gate{Provider: "sim", Breaker: "closed"},
	}
}

func get(t *testing.T, s Sources, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	return request(t, New(Config{Sources: s, Version: "v1"}), http.MethodGet, path, header...)
}

func request(t *testing.T, h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
