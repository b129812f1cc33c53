package httpapi

import (
	"net/http"

	"github.com/google/uuid"
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
