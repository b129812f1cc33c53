package httpapi

import (
	"net/http"
	"strings"

	"github.com/fencepost/fencepost/tasks"
)

// idempotencyKey reads the key of a request. The draft of the IETF (draft-ietf-httpapi-idempotency-key-header) has a
// structured-field string, in quotes; nearly every client sends it bare. Both spell the same key.
func idempotencyKey(h http.Header) (string, *problem) {
	values := h["Idempotency-Key"]
	switch len(values) {
	case 0:
		return "", keyMissing()
	case 1:
	default:
		return "", keyInvalid("send one header Idempotency-Key, not several")
	}
	key := values[0]
	if strings.HasPrefix(key, `"`) {
		var ok bool
		if key, ok = unquote(key); !ok {
			return "", keyInvalid(`a key that begins with a quote must be a structured-field string: "…", where only \" and \\ are escapes`)
		}
	}
	if !tasks.ValidKey(key) {
		return "", keyInvalid("a key has 1 to 255 printable ASCII characters")
	}
	return key, nil
}

// unquote reads a structured-field string (RFC 9651, section 4.2.5) without parameters.
func unquote(s string) (string, bool) {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return "", false
	}
	s = s[1 : len(s)-1]
	if !strings.ContainsAny(s, `"\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return "", false
		case '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), true
}
