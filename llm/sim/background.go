package sim

import (
	"context"
	"net/http"
	"time"
)

// start runs g in the background. It is refused when the server is being closed.
func (s *Server) start(g *generation) bool {
	s.runMu.Lock()
	defer s.runMu.Unlock()
	if s.closing.Err() != nil {
		return false
	}
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(s.closing)
	s.running.Go(func() { s.run(ctx, g) })
	return true
}

// run is a generation that goes on without a client, until it is done or cancelled. One that the server's end cut short
// stays under way in the ledger, as after a kill.
func (s *Server) run(ctx context.Context, g *generation) {
	defer g.cancel()
	var due <-chan time.Time
	if g.rule.Do != doHang {
		t := time.NewTimer(time.Until(g.due))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-due:
	case <-ctx.Done():
	}
	if s.closing.Err() != nil {
		return
	}
	done, how := g.rule.Do, wasMade
	in, out := billed(g.rep, &g.rule)
	if ctx.Err() != nil {
		done, how = "cancelled", wasCancelled
		if !s.settings.get().BillOnDisconnect {
			out = 0
		}
	}
	s.note(s.ledger.end(g.e, done, http.StatusOK, false, in, out))
	g.ends(how)
	close(g.done)
}
