package httpapi

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// WorkspaceBacklog counts the tasks of one workspace that are not finished, up to most of them.
type WorkspaceBacklog interface {
	UnfinishedOf(ctx context.Context, workspace string, most int) (int, error)
}

// countedFor is how long a workspace's count is good: what has finished by then makes room.
const countedFor = 2 * time.Second

// quota bounds the unfinished tasks of each workspace. Between two counts it adds up what this process lets in, so that
// only what other processes let in at the same time can exceed the bound.
type quota struct {
	backlog WorkspaceBacklog
	max     int // 0: there is no bound
	log     *slog.Logger
	flight  singleflight.Group

	mu     sync.Mutex
	counts map[string]unfinished
}

type unfinished struct {
	n     int
	until time.Time
}

func newQuota(backlog WorkspaceBacklog, most int, log *slog.Logger) *quota {
	return &quota{backlog: backlog, max: most, log: log, counts: make(map[string]unfinished)}
}

// take uses one place, or says that there is none. When the count cannot be had there is: a store that does not answer
// refuses by itself.
func (q *quota) take(ctx context.Context, workspace string) bool {
	if q.max == 0 {
		return true
	}
	if ok, counted := q.counted(workspace); counted {
		return ok
	}
	// Callers share the count, so none of them may cancel it.
	_, err, _ := q.flight.Do(workspace, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countedFor)
		defer cancel()
		n, err := q.backlog.UnfinishedOf(ctx, workspace, q.max)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		q.mu.Lock()
		defer q.mu.Unlock()
		makeRoom(q.counts, maxWorkspaces, func(u unfinished) bool { return now.After(u.until) })
		q.counts[workspace] = unfinished{n: n, until: now.Add(countedFor)}
		return nil, nil
	})
	if err != nil {
		q.log.Debug("the unfinished tasks of a workspace could not be counted", "workspace", workspace, "error", err)
		return true
	}
	ok, counted := q.counted(workspace)
	return ok || !counted
}

func (q *quota) counted(workspace string) (ok, counted bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, known := q.counts[workspace]
	if !known || !time.Now().Before(u.until) {
		return false, false
	}
	if u.n >= q.max {
		return false, true
	}
	u.n++
	q.counts[workspace] = u
	return true, true
}

// giveBack undoes a take.
func (q *quota) giveBack(workspace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if u, ok := q.counts[workspace]; ok && u.n > 0 {
		u.n--
		q.counts[workspace] = u
	}
}
