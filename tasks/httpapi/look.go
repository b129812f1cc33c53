package httpapi

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// looks reads how far tasks are for all who begin to wait at once: when a process ends, thousands connect to the next one
// in the same second. A look that is alone waits for nothing.
type looks struct {
	hub     *hub
	asked   chan struct{} // capacity 1: someone looks
	stopped chan struct{} // closed when nobody looks any more

	mu   sync.Mutex
	next *looking // those who wait for the next query
}

// looking is one round of queries.
type looking struct {
	ids  []uuid.UUID
	done chan struct{} // closed when the rest is set
	seen map[uuid.UUID]tasks.Progress
	err  error
}

func newLooks(h *hub) *looks {
	return &looks{hub: h, asked: make(chan struct{}, 1), stopped: make(chan struct{}), next: newLooking()}
}

func newLooking() *looking { return &looking{done: make(chan struct{})} }

// look tells how far a task is. tasks.ErrNotFound: it is not one of the workspace.
func (l *looks) look(ctx context.Context, workspace string, id uuid.UUID) (tasks.Progress, error) {
	l.mu.Lock()
	round := l.next
	round.ids = append(round.ids, id)
	l.mu.Unlock()
	notify(l.asked)
	select {
	case <-round.done:
	case <-l.stopped:
		return tasks.Progress{}, overloaded("this server is stopping", nil)
	case <-ctx.Done():
		return tasks.Progress{}, context.Cause(ctx)
	}
	if round.err != nil {
		return tasks.Progress{}, round.err
	}
	p, ok := round.seen[id]
	if !ok || p.Workspace != workspace {
		return tasks.Progress{}, tasks.ErrNotFound
	}
	return p, nil
}

// run answers looks until ctx is done.
func (l *looks) run(ctx context.Context) {
	defer close(l.stopped)
	for {
		select {
		case <-l.asked:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		round := l.next
		l.next = newLooking()
		l.mu.Unlock()
		round.seen = make(map[uuid.UUID]tasks.Progress, len(round.ids))
		_, round.err = inChunks(ctx, l.hub, round.ids, func(ctx context.Context, ids []uuid.UUID) ([]struct{}, error) {
			progress, err := l.hub.watched.Progress(ctx, ids)
			for _, p := range progress {
				round.seen[p.TaskID] = p
			}
			return nil, err
		})
		close(round.done)
	}
}
