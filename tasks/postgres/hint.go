package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Channels of the hints.
const (
	ChannelHandoffs = "fencepost_handoffs" // the outbox has new rows
	ChannelFinished = "fencepost_finished" // tasks ended
)

const (
	hintGap     = 2 * time.Millisecond // between two notifications of a process
	hintTimeout = 2 * time.Second      // of one statement
	hintRetry   = time.Second          // after a failure
	hintSilence = 15 * time.Second     // a listener that heard nothing asks whether the server is there
)

// Hints tell other processes that there is something to look for, so that they need not wait for their next poll.
// They are hints: one that is lost costs a poll interval, and nothing may depend on one. They are sent on a connection
// of their own and never in anybody's transaction, where NOTIFY would take the server's group commit away.
type Hints struct {
	config *pgx.ConnConfig
	log    *slog.Logger

	mu      sync.Mutex
	waiting map[string]struct{} // channels to notify
	signal  chan struct{}
}

// NewHints sends and receives over connections made from config. log may be nil.
func NewHints(config *pgx.ConnConfig, log *slog.Logger) *Hints {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Hints{config: config, log: log, waiting: make(map[string]struct{}), signal: make(chan struct{}, 1)}
}

// Notify asks for a hint on channel and returns at once. Calls that come while one is waiting become one.
func (h *Hints) Notify(channel string) {
	h.mu.Lock()
	_, known := h.waiting[channel]
	h.waiting[channel] = struct{}{}
	h.mu.Unlock()
	if known {
		return
	}
	select {
	case h.signal <- struct{}{}:
	default:
	}
}

func (h *Hints) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	channels := make([]string, 0, len(h.waiting))
	for channel := range h.waiting {
		channels = append(channels, channel)
	}
	clear(h.waiting)
	return channels
}

// Run sends what Notify asked for until ctx is done, and returns nil. Without it nothing is sent.
func (h *Hints) Run(ctx context.Context) error {
	var conn *pgx.Conn
	defer func() { hangUp(conn) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.signal:
		}
		pause := hintGap
		if err := h.send(ctx, &conn, h.take()); err != nil && ctx.Err() == nil {
			h.log.Debug("hint not sent; readers find it at their next poll", "error", err)
			pause = hintRetry
		}
		if !wait(ctx, pause) {
			return nil
		}
	}
}

const notify = `select pg_notify(channel, '') from unnest($1::text[]) channel`

// send leaves *conn nil when the connection is not to be used again.
func (h *Hints) send(ctx context.Context, conn **pgx.Conn, channels []string) error {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	if *conn == nil {
		c, err := pgx.ConnectConfig(ctx, h.config.Copy())
		if err != nil {
			return err
		}
		*conn = c
	}
	if _, err := (*conn).Exec(ctx, notify, channels); err != nil {
		hangUp(*conn)
		*conn = nil
		return err
	}
	return nil
}

// Listen calls wake for every hint on channel, and each time it has connected, since hints may have been lost before.
// It connects again for as long as it takes, and returns nil when ctx is done. wake must not block.
func (h *Hints) Listen(ctx context.Context, channel string, wake func()) error {
	for {
		err := h.listen(ctx, channel, wake)
		if ctx.Err() != nil {
			return nil
		}
		h.log.Debug("hints are not heard; polling goes on", "channel", channel, "error", err)
		if !wait(ctx, hintRetry) {
			return nil
		}
	}
}

// listen ends with the connection's failure or with ctx.
func (h *Hints) listen(ctx context.Context, channel string, wake func()) error {
	conn, err := h.open(ctx, channel)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	wake()
	for {
		err := heard(ctx, conn)
		switch {
		case err == nil:
			wake()
		case ctx.Err() != nil:
			return ctx.Err()
		case pgconn.Timeout(err):
			if err := ping(ctx, conn); err != nil {
				return fmt.Errorf("connection fell silent: %w", err)
			}
		default:
			return err
		}
	}
}

func (h *Hints) open(ctx context.Context, channel string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, h.config.Copy())
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "listen "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return nil, errors.Join(err, hangUp(conn))
	}
	return conn, nil
}

func heard(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, hintSilence)
	defer cancel()
	_, err := conn.WaitForNotification(ctx)
	return err
}

// ping notices a peer that is gone without a word: reading alone would wait for it for ever.
func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

func hangUp(conn *pgx.Conn) error {
	if conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), hintTimeout)
	defer cancel()
	return conn.Close(ctx)
}

// wait reports whether ctx outlived it.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
