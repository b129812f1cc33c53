package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of HTTP connections. A slow client must not hold one for ever; a long poll must not be cut.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 2 * time.Minute // above the API's longest ?wait
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// newServer is an http.Server with every limit set.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// serve runs a server until ctx is done, then lets open requests end for at most drain.
func serve(ctx context.Context, s *http.Server, l net.Listener, drain time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := s.Shutdown(stop)
	if err != nil {
		err = errors.Join(err, s.Close())
	}
	<-ended
	return err
}
