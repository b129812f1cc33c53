package lag

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// ErrNotElected: another process reads the lag.
var ErrNotElected = errors.New("another process reads the lag")

const (
	// fresh is how old a report may be that is given to several who ask at once.
	fresh = time.Second
	// readTimeout bounds one reading, below the time that a scrape waits.
	readTimeout = 5 * time.Second
)

// MonitorConfig is what a Monitor needs.
type MonitorConfig struct {
	Config
	Rules Rules
	Every time.Duration // between two samples of the history. 0: 10 s
	Keep  time.Duration // how long they are kept. 0: an hour

	// Elected says whether this process is the one that reads. It is asked before each reading, and must not block.
	Elected func() bool
	Logger  *slog.Logger
}

// Monitor reads the lag of one group and topic for everybody, with a history. One process of an installation is elected
// to do it: the series of a partition must not end with the worker that had it. Methods are safe for concurrent use.
type Monitor struct {
	config MonitorConfig
	turn   chan struct{} // one reading at a time; who waits gets what it brought

	mu      sync.Mutex
	history *History
	err     error     // of the last reading
	failed  time.Time // when it failed
	errors  int64
}

// NewMonitor reads nothing yet.
func NewMonitor(c MonitorConfig) *Monitor {
	if c.Every == 0 {
		c.Every = 10 * time.Second
	}
	if c.Keep == 0 {
		c.Keep = time.Hour
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Monitor{config: c, turn: make(chan struct{}, 1), history: newHistory(c)}
}

// newHistory takes a sample that is a little early: one that comes when another has just asked is not read anew.
func newHistory(c MonitorConfig) *History { return NewHistory(c.Rules, max(0, c.Every-fresh), c.Keep) }

// Run takes the samples until ctx is done.
func (m *Monitor) Run(ctx context.Context) error {
	tick := time.NewTicker(min(time.Second, m.config.Every)) // so often is looked who is elected
	defer tick.Stop()
	var due time.Time
	for {
		switch now := time.Now(); {
		case !m.Elected():
			m.forget()
			due = time.Time{}
		case !now.Before(due):
			_, _ = m.Report(ctx) // told by the reading itself
			due = now.Add(m.config.Every)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Elected reports whether this process is the one that reads.
func (m *Monitor) Elected() bool { return m.config.Elected() }

// Report is the lag as of now, at most a second old. ErrNotElected; any other error is why it could not be read.
func (m *Monitor) Report(ctx context.Context) (Report, error) {
	if !m.Elected() {
		return Report{}, ErrNotElected
	}
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	}
	if r, ok := m.History().Latest(); ok && time.Since(r.At) < fresh {
		return r, nil
	}
	if err := m.justFailed(); err != nil {
		return Report{}, err
	}
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := Read(reading, m.config.Config)
	if err == nil {
		r = m.History().Add(r)
	}
	if ctx.Err() == nil {
		m.told(err)
	}
	return r, err
}

// told logs the first of several failures.
func (m *Monitor) told(err error) {
	m.mu.Lock()
	before := m.err
	m.err = err
	if err != nil {
		m.errors++
		m.failed = time.Now()
	}
	m.mu.Unlock()
	switch {
	case err != nil && before == nil:
		m.config.Logger.Warn("the lag cannot be read; its series are absent until it can", "group", m.config.Group, "topic", m.config.Topic, "error", err)
	case err == nil && before != nil:
		m.config.Logger.Info("the lag can be read again", "group", m.config.Group, "topic", m.config.Topic)
	}
}

// justFailed is why the last reading failed, until it is time for the next sample: a Kafka that does not answer would make
// every scrape wait, and the series of the other parts with it.
func (m *Monitor) justFailed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil && time.Since(m.failed) < m.config.Every-readTimeout {
		return m.err
	}
	return nil
}

// failures is how many readings have failed.
func (m *Monitor) failures() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.errors
}

// History is what was sampled while this process was elected.
func (m *Monitor) History() *History {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.history
}

// forget begins the history anew: one with a hole in it, from before another process was elected, would be judged as if
// nothing had happened in between.
func (m *Monitor) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, some := m.history.Latest(); some {
		m.history = newHistory(m.config)
	}
}
