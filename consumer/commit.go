package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/fencepost/fencepost/offsets"
)

const (
	commitEarly   = 5000             // settled records after which a commit does not wait for its interval
	commitTimeout = 10 * time.Second // a moving coordinator needs up to this long
)

// commitSoon asks for a commit before the interval is over.
func (c *Consumer) commitSoon() {
	select {
	case c.commitWake <- struct{}{}:
	default:
	}
}

// runCommits commits whatever advanced, every interval. It is the session's one committer beside the drains, which
// take the same token.
func (s *session) runCommits() {
	tick := time.NewTicker(s.c.cfg.CommitInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		case <-s.c.commitWake:
		}
		s.commit(s.ctx, s.all())
	}
}

// commit sends the positions of the given assignments, one commit at a time. A failure is met again at the next tick;
// one that says this member is gone ends the session.
func (s *session) commit(ctx context.Context, list []*assignment) {
	c := s.c
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	select {
	case s.commitToken <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-s.commitToken }()

	var commits []offsets.Commit
	var from []*assignment
	c.mu.Lock()
	c.finished.Store(0)
	member := s.member
	for _, a := range list {
		// An assignment of a former membership has nothing to say any more.
		if commit, news := a.commit(c.cfg.RecommitAfter); news && a.member == member {
			commits, from = append(commits, commit), append(from, a)
		}
	}
	c.mu.Unlock()
	if len(commits) == 0 {
		return
	}

	errs := c.positions.Commit(ctx, member, commits)
	var failed error
	c.mu.Lock()
	for i, err := range errs {
		if err != nil {
			failed = err
			switch {
			case errors.Is(err, kerr.FencedInstanceID):
				s.end(errInstanceTaken)
			case errors.Is(err, offsets.ErrNotOwner):
				s.end(errNotOwner)
			}
			continue
		}
		from[i].committed, from[i].said = commits[i].Position, time.Now()
		from[i].meta = offsets.EncodeRuns(commits[i].Position.Offset, commits[i].Ahead, aheadLimit)
	}
	c.mu.Unlock()
	if failed != nil {
		c.metrics.commits.WithLabelValues("error").Inc()
		c.log.Warn("commit failed, trying again", "error", failed)
		return
	}
	c.metrics.commits.WithLabelValues("ok").Inc()
}
