package httpapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// admit says whether there is room for what was asked: in the backlog of all, and in what the workspace may have unfinished
// and submit in a minute. A repeat of what was accepted is never refused, since it makes no work; giveBack, which is for
// what turned out to be one, or was not stored, keeps it from using up the room of others.
func (s *Server) admit(c *call, asked tasks.Submission) (giveBack func(), p *problem) {
	giveBack = func() {}
	switch {
	case s.shed.full.Load():
		p = overloaded("too many tasks are waiting; nothing was stored, repeat with the same key", nil)
		p.retryAfter = 5
	case !s.quota.take(c.r.Context(), c.workspace):
		p = rateLimited(fmt.Sprintf("this workspace has %d tasks that are not finished, and may have no more; nothing was stored, "+
			"repeat with the same key once some have finished", s.quota.max), int(countedFor/time.Second))
	default:
		if wait := s.rates.take(c.workspace); wait > 0 {
			s.quota.giveBack(c.workspace)
			p = rateLimited(fmt.Sprintf("this workspace may submit %d messages in a minute; nothing was stored, repeat with the same key",
				s.rates.perMinute), int((wait+time.Second-1)/time.Second))
			break
		}
		return func() {
			s.quota.giveBack(c.workspace)
			s.rates.giveBack(c.workspace)
		}, nil
	}
	if s.bindings != nil {
		ctx, cancel := s.read(c)
		defer cancel()
		if _, err := s.bindings.Binding(ctx, asked.Workspace, asked.Operation, asked.Key); !errors.Is(err, tasks.ErrNotFound) {
			return giveBack, nil
		}
	}
	return giveBack, p
}
