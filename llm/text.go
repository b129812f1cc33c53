package llm

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMessage bounds what a failure says in another's words, in bytes.
const maxMessage = 300

// CleanText makes text fit for JSON and for Postgres: valid UTF-8 without NUL.
func CleanText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return s
}

// Extract makes one short line of a provider's words. It says nothing when they repeat one of the hidden texts, in whole
// or in any run of 31 bytes, or in whole when that is shorter; texts under 8 bytes are too common to tell.
func Extract(msg string, hide ...string) string {
	msg = clip(msg, 4*maxMessage) // what cannot be said need not be searched
	for _, h := range hide {
		if repeats(msg, h) {
			return "(withheld: it repeats the request)"
		}
	}
	return clip(oneLine(msg), maxMessage)
}

const run = 16

// repeats looks for the aligned blocks of h: one of them lies in every shared run of 2*run-1 bytes.
func repeats(msg, h string) bool {
	h = strings.TrimSpace(h)
	if len(h) < 8 {
		return false
	}
	if len(h) < 2*run-1 {
		return strings.Contains(msg, h)
	}
	for i := 0; i+run <= len(h); i += run {
		if strings.Contains(msg, h[i:i+run]) {
			return true
		}
	}
	return false
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// clip cuts s to at most n bytes, between runes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
