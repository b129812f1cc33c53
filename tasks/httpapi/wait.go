package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// maxReads bounds the reads of tasks that have ended: they end by the thousand, and other requests want connections, too.
const maxReads = 8

// parseWait reads the parameter wait: a Go duration, or whole seconds. It is cut to limit.
func parseWait(s string, limit time.Duration) (time.Duration, *problem) {
	d, err := time.ParseDuration(s)
	if seconds, intErr := strconv.ParseUint(s, 10, 64); intErr == nil {
		// Compared as numbers: a large number of seconds would overflow a duration into the past.
		d, err = limit, nil
		if seconds < uint64(limit/time.Second) {
			d = time.Duration(seconds) * time.Second
		}
	}
	if err != nil || d < 0 {
		return 0, invalidField("wait", "is neither a duration such as 30s nor a number of seconds")
	}
	return min(d, limit), nil
}

// await reads the task once it is terminal, or as it stands when wait is over.
func (s *Server) await(ctx context.Context, workspace string, id uuid.UUID, wait time.Duration) (*tasks.Task, error) {
	if wait <= 0 {
		return s.asItStands(ctx, workspace, id)
	}
	w, p := s.hub.register(workspace, id, false)
	if p != nil {
		return nil, p
	}
	defer w.leave()
	// Only after register: what finishes from here on is told.
	now, err := s.look(ctx, workspace, id)
	if err != nil {
		return nil, err
	}
	if now.Status.Terminal() {
		return s.finished(ctx, workspace, id)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-w.news:
		return s.finished(ctx, workspace, id)
	case <-timer.C:
	case <-s.hub.draining:
	case <-ctx.Done(): // nobody reads the answer
		return nil, context.Cause(ctx)
	}
	return s.asItStands(ctx, workspace, id)
}

// asItStands reads a task off the stack of those that wait: a stack that has grown does not shrink while it is used.
func (s *Server) asItStands(ctx context.Context, workspace string, id uuid.UUID) (*tasks.Task, error) {
	task, err := s.task(ctx, workspace, id)
	return &task, err
}

// look tells how far a task is.
func (s *Server) look(ctx context.Context, workspace string, id uuid.UUID) (tasks.Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.ReadTimeout)
	defer cancel()
	return s.looks.look(ctx, workspace, id)
}

func (s *Server) task(ctx context.Context, workspace string, id uuid.UUID) (tasks.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.ReadTimeout)
	defer cancel()
	return s.store.Task(ctx, workspace, id)
}

// finished reads a task that has ended, once for all who wait for it. The caller has been shown that the task is its
// workspace's.
func (s *Server) finished(ctx context.Context, workspace string, id uuid.UUID) (*tasks.Task, error) {
	v, err, _ := s.reading.Do(string(id[:]), func() (any, error) {
		// Callers share the read, so none of them may cancel it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.ReadTimeout)
		defer cancel()
		select {
		case s.reads <- struct{}{}:
			defer func() { <-s.reads }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		task, err := s.store.Task(ctx, workspace, id)
		return &task, err
	})
	if err != nil {
		return nil, err
	}
	return v.(*tasks.Task), nil
}
