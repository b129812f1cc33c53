package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/tasks"
)

const (
	keyHeader     = "Idempotency-Key"
	naturalHeader = "Fencepost-Natural-Key"
)

// keyOf reads what a request is bound by: its Idempotency-Key within the operation, or its Fencepost-Natural-Key within
// tasks.OperationNatural, which all callers of the workspace share, whatever route they take. A request with both is bound
// by the natural key; the other must be well-formed all the same.
func keyOf(h http.Header, operation string) (op, key string, p *problem) {
	own, hasOwn, p := keyIn(h, keyHeader)
	if p != nil {
		return "", "", p
	}
	natural, hasNatural, p := keyIn(h, naturalHeader)
	switch {
	case p != nil:
		return "", "", p
	case hasNatural:
		return tasks.OperationNatural, natural, nil
	case hasOwn:
		return operation, own, nil
	default:
		return "", "", keyMissing()
	}
}

// keyIn reads one header. The draft of the IETF (draft-ietf-httpapi-idempotency-key-header) has a structured-field
// string, in quotes; nearly every client sends it bare. Both spell the same key.
func keyIn(h http.Header, name string) (key string, ok bool, p *problem) {
	values := h[name]
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", false, keyInvalid("send one header " + name + ", not several")
	}
	key = values[0]
	if strings.HasPrefix(key, `"`) {
		if key, ok = unquote(key); !ok {
			return "", false, keyInvalid(name + `: a key that begins with a quote must be a structured-field string: "…", where only \" and \\ are escapes`)
		}
	}
	if !tasks.ValidKey(key) {
		return "", false, keyInvalid(name + ": a key has 1 to 255 printable ASCII characters")
	}
	return key, true, nil
}

// sayKey writes what the answer to a keyed request says of its key: until when it is known, whether it was known already,
// and what a repeat of finished work did not cost again.
func sayKey(h http.Header, result tasks.Submitted, replayed bool, task tasks.Task) {
	if !result.ExpiresAt.IsZero() {
		h["Idempotency-Expires"] = []string{result.ExpiresAt.UTC().Format(time.RFC3339Nano)}
	}
	if !replayed {
		return
	}
	h["Idempotency-Replayed"] = []string{"true"}
	if !task.Status.Terminal() {
		return
	}
	h["Fencepost-Saved-Tokens"] = []string{strconv.FormatInt(task.Cost.InputTokens+task.Cost.OutputTokens, 10)}
	if amount := task.Cost.PicoUSD; amount != nil {
		h["Fencepost-Saved-Amount"] = []string{tasks.Dollars(*amount)}
	}
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
