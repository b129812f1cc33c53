package tasks

import (
	"strings"
	"unicode/utf8"
)

// Limits of what a task carries, in bytes.
const (
	MaxFailureText = 1 << 10
	MaxReplyText   = 4 << 20
	MaxInputText   = 4 << 20 // content, system and the other texts of a request, each
	MaxName        = 512     // workspace, operation, conversation: what an index holds must be small
	MaxKey         = 255     // idempotency key
)

// Clean makes s storable as Postgres text: invalid UTF-8 becomes U+FFFD and NUL is dropped. A single such byte would
// otherwise fail the statement, and with it every neighbour in the batch.
func Clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// Cut cleans s and cuts it to at most n bytes, never inside a character.
func Cut(s string, n int) string {
	s = Clean(s)
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
