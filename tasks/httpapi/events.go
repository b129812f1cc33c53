package httpapi

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

const (
	heartbeat   = 15 * time.Second
	reconnect   = time.Second // after a connection that was lost
	lastEventID = "Last-Event-ID"
)

// statusView is the part of a task that is told while it goes on.
type statusView struct {
	ID                uuid.UUID    `json:"id"`
	Status            tasks.Status `json:"status"`
	Attempts          int          `json:"attempts"`
	AssignmentVersion int64        `json:"assignment_version"`
}

type tokenView struct {
	Attempt int    `json:"attempt"`
	Index   int    `json:"index"`
	Text    string `json:"text"`
}

type resetView struct {
	Attempt int `json:"attempt"`
}

// getEvents tells what happens to a task until it has ended.
func (s *Server) getEvents(c *call) (int, error) {
	id, p := taskID(c.r)
	if p != nil {
		return 0, p
	}
	from, p := lastEvent(c.r)
	if p != nil {
		return 0, p
	}
	if from.status.Terminal() || c.r.Method == http.MethodHead {
		now, err := s.look(c.r.Context(), c.workspace, id)
		if err != nil {
			return 0, err
		}
		if now.Status == from.status {
			// It has had the last event. This is what tells an EventSource not to connect again.
			c.w.WriteHeader(http.StatusNoContent)
			return http.StatusNoContent, nil
		}
		if c.r.Method == http.MethodHead {
			newStream(c.w)
			return http.StatusOK, nil
		}
	}
	var out *stream
	checked := time.Now()
	err := s.watch(c.r.Context(), c.workspace, id, from, func(e event) bool {
		if out == nil {
			if out = newStream(c.w); !out.retry(reconnect) {
				return false
			}
		}
		// A stream may last for hours; a key that was revoked meanwhile opens nothing more.
		if time.Since(checked) > s.heartbeat {
			if _, err := s.keys.authenticate(c.r.Context(), c.r.Header); err != nil && asProblem(err).Status == http.StatusUnauthorized {
				out.comment("this API key has been revoked")
				return false
			}
			checked = time.Now()
		}
		return out.tell(e)
	})
	switch {
	case err == nil:
	case out == nil:
		return 0, err
	case errors.Is(err, errDraining):
		// All readers of this process come back at once, somewhere else.
		out.retry(rand.N(2 * reconnect))
		out.comment("this server is stopping; connect again")
	default:
		out.comment("the store does not answer; connect again")
		s.errors.note(c.r.Context(), asProblem(err), "GET /v1/tasks/{id}/events", requestID(c.r.Header))
	}
	return http.StatusOK, nil
}

// tell writes an event as this route has it.
func (s *stream) tell(e event) bool {
	var data any
	switch e.kind {
	case eventAlive:
		return s.comment("")
	case eventStatus:
		data = statusView{ID: e.task.ID, Status: e.task.Status, Attempts: e.task.Attempts, AssignmentVersion: e.task.Version}
	case eventToken:
		data = tokenView{Attempt: e.attempt, Index: e.index, Text: e.text}
	case eventReset:
		data = resetView{Attempt: e.attempt}
	default:
		data = viewTask(*e.task)
	}
	return s.send(e.at.String(), e.kind, data)
}

// lastEvent is where the reader is: in the header, which a browser sends when it connects again, or in the query, for those
// that can set no header. The header is the newer of the two.
func lastEvent(r *http.Request) (cursor, *problem) {
	q, p := params(r, "last_event_id")
	if p != nil {
		return cursor{}, p
	}
	from, p := cursor{}, (*problem)(nil)
	if text := q["last_event_id"]; text != "" {
		if from, p = parseCursor("last_event_id", text); p != nil {
			return cursor{}, p
		}
	}
	if text := r.Header.Get(lastEventID); text != "" {
		from, p = parseCursor(lastEventID, text)
	}
	return from, p
}
