package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// problem is an RFC 9457 problem detail. It is an error, so that handlers return it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Code   string `json:"code"`
	Field  string `json:"field,omitempty"`
	TaskID string `json:"task_id,omitempty"`

	retryAfter int    // seconds; 0 for none
	challenge  string // WWW-Authenticate
	allow      string // Allow, of a 405
	final      bool   // a repeat comes to the same each time
	cause      error  // for the log, never for the caller
}

func (p *problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("%s: %s: %v", p.Code, p.Detail, p.cause)
	}
	return p.Code + ": " + p.Detail
}

func (p *problem) Unwrap() error { return p.cause }

func newProblem(status int, code, title, detail string) *problem {
	return &problem{Type: "urn:fencepost:problem:" + code, Title: title, Status: status, Code: code, Detail: detail}
}

func invalidField(field, format string, args ...any) *problem {
	p := newProblem(http.StatusBadRequest, "invalid_request", "The request is not valid", field+" "+fmt.Sprintf(format, args...))
	p.Field = field
	return p
}

func tooLarge(field string, limit int) *problem {
	p := newProblem(http.StatusRequestEntityTooLarge, "too_large", "The request is too large",
		fmt.Sprintf("%s has more than %d bytes", field, limit))
	p.Field = field
	return p
}

func unsupportedMediaType(detail string) *problem {
	p := newProblem(http.StatusUnsupportedMediaType, "invalid_request", "The request is not valid", detail)
	p.Field = "Content-Type"
	return p
}

func keyMissing() *problem {
	return newProblem(http.StatusBadRequest, codeKeyMissing, "Idempotency-Key is missing",
		"send a header Idempotency-Key with a value of your own that is the same on every repeat of this message")
}

func keyInvalid(detail string) *problem {
	return newProblem(http.StatusBadRequest, "idempotency_key_invalid", "Idempotency-Key is malformed", detail)
}

func keyReused(task uuid.UUID) *problem {
	p := newProblem(http.StatusUnprocessableEntity, "idempotency_key_reused", "Idempotency-Key was used with other inputs",
		"this key belongs to another request; send a new key for a new message")
	if task != uuid.Nil {
		p.TaskID = task.String()
	}
	return p
}

func inProgress() *problem {
	p := newProblem(http.StatusConflict, "idempotency_in_progress", "The first request is still in progress",
		"the first request under this key has not been stored yet; repeat this one shortly")
	p.retryAfter = 1
	return p
}

func unauthorized(detail, challenge string) *problem {
	p := newProblem(http.StatusUnauthorized, "unauthorized", "Not authenticated", detail)
	p.challenge = challenge
	return p
}

func forbidden(scope tasks.Scope) *problem {
	return newProblem(http.StatusForbidden, "forbidden", "The API key is not good for this",
		fmt.Sprintf("this route needs a key with the scope %q", scope))
}

func rateLimited(detail string, retryAfter int) *problem {
	p := newProblem(http.StatusTooManyRequests, "rate_limited", "Too much at once", detail)
	p.retryAfter = retryAfter
	return p
}

func notFound() *problem {
	return newProblem(http.StatusNotFound, "not_found", "Not found", "there is no such thing in this workspace")
}

func noRoute() *problem {
	return newProblem(http.StatusNotFound, "not_found", "Not found", "there is no such route; /docs lists them")
}

func methodNotAllowed(allow string) *problem {
	p := newProblem(http.StatusMethodNotAllowed, "method_not_allowed", "Method not allowed", "this route takes "+allow)
	p.allow = allow
	return p
}

func overloaded(detail string, cause error) *problem {
	p := newProblem(http.StatusServiceUnavailable, "overloaded", "Not possible at the moment", detail)
	p.retryAfter, p.cause = 1, cause
	return p
}

func internal(detail string, cause error) *problem {
	p := newProblem(http.StatusInternalServerError, "internal", "Something went wrong here", detail)
	p.cause = cause
	return p
}

// asProblem says what a handler's error is to the caller.
func asProblem(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, tasks.ErrNotFound):
		return notFound()
	case errors.Is(err, tasks.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return overloaded("the store does not answer at the moment; try again", err)
	default:
		return internal("the request could not be answered; the server's log says why", err)
	}
}

// write sends the problem to the caller.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	p.writeHeaders(h)
	writeBody(w, p.Status, p)
}

func (p *problem) writeHeaders(h http.Header) {
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.challenge != "" {
		h.Set("WWW-Authenticate", p.challenge)
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
}
