package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

const maxRequestID = 128

// requestID takes the caller's X-Request-Id when it is harmless in a header and in a log line, else makes one.
func requestID(h http.Header) string {
	if values := h["X-Request-Id"]; len(values) == 1 {
		if id := values[0]; id != "" && len(id) <= maxRequestID && printable(id) {
			return id
		}
	}
	return uuid.Must(uuid.NewV7()).String()
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// traceParent takes a W3C traceparent; one that is malformed is ignored, as its specification asks. A later version may
// append fields, which are dropped: what is passed on is version 00.
func traceParent(h http.Header) string {
	values := h["Traceparent"]
	if len(values) != 1 {
		return ""
	}
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	s := values[0]
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return ""
	}
	version, trace, span, flags := s[:2], s[3:35], s[36:52], s[53:length]
	if !hex(version) || !hex(trace) || !hex(span) || !hex(flags) || version == "ff" || zeros(trace) || zeros(span) {
		return ""
	}
	if len(s) > length && (version == "00" || s[length] != '-') {
		return ""
	}
	return "00" + s[2:length]
}

func hex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func zeros(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return false
		}
	}
	return true
}

// startSpan is the server's part of the caller's trace.
func (s *Server) startSpan(route string, r *http.Request) tasks.Span {
	span := s.tracer.Start(tasks.SpanStart{Name: route, Kind: tasks.SpanServer, Parent: traceParent(r.Header)})
	span.Set("http.request.method", r.Method)
	if _, path, ok := strings.Cut(route, " "); ok {
		span.Set("http.route", path)
	}
	return span
}

func endSpan(span tasks.Span, status int) {
	span.Set("http.response.status_code", status)
	failure := ""
	if status >= http.StatusInternalServerError { // what the caller did wrong is no failure of ours
		failure = strconv.Itoa(status)
	}
	span.End(failure)
}

// traceParent is what the task's spans follow from.
func (c *call) traceParent() string {
	if c.span != nil {
		return c.span.TraceParent()
	}
	return traceParent(c.r.Header)
}

// trace says in the request's span which task it came to.
func (c *call) trace(asked tasks.Submission, result tasks.Submitted) {
	if c.span == nil {
		return
	}
	c.span.Set("fencepost.task", result.TaskID.String())
	c.span.Set("fencepost.workspace", c.workspace)
	c.span.Set("fencepost.replayed", result.TaskID != asked.TaskID)
}
