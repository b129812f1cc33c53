package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// errorLog writes what callers cannot be told. A store that is down fails thousands of requests a second for one reason,
// so of 503 it writes one line a second, with the number of those it stands for.
type errorLog struct {
	log     *slog.Logger
	next    atomic.Int64 // Unix nanoseconds
	skipped atomic.Int64
}

func (l *errorLog) note(ctx context.Context, p *problem, route, requestID string) {
	switch {
	case p.Status < http.StatusInternalServerError || ctx.Err() != nil:
		// The caller's fault, or nobody's: the client went away.
	case p.Status != http.StatusServiceUnavailable:
		l.log.ErrorContext(ctx, "request failed", "route", route, "request_id", requestID, "error", p)
	default:
		now := time.Now().UnixNano()
		next := l.next.Load()
		if now < next || !l.next.CompareAndSwap(next, now+int64(time.Second)) {
			l.skipped.Add(1)
			return
		}
		l.log.WarnContext(ctx, "requests are refused", "route", route, "request_id", requestID, "error", p,
			"more", l.skipped.Swap(0))
	}
}
