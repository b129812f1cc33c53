package llm

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzErrorBody(f *testing.F) {
	for _, s := range []string{
		"", "null", "{}", "[]", "<html>", `{"error":null}`, `{"error":"text"}`, `{"error":{"message":"m","type":"t","code":"c"}}`,
		`{"error":{"message":["m"],"code":429,"details":{"error_code":"x"}}}`, `{"type":"error","error":{"type":"t"}}`,
		`{"object":"error","message":"m"}`, `{"detail":[{"msg":"m"}]}`, `[{"error":{"code":1e400}}]`, "{\"error\":\"\xff\x00\"}",
	} {
		f.Add(s, 503)
	}
	f.Fuzz(func(t *testing.T, body string, status int) {
		const key, prompt = "sk-key-of-the-fuzzer", "a prompt that is long enough to be recognised when repeated"
		got := Refused(Response{Status: status, Header: http.Header{}, Body: []byte(body)}, Wire{Requests: 1}, key, prompt)
		if got.Class == NotSent || got.Class == Cancelled || got.Class == RejectedOutput || got.Class == "" {
			t.Errorf("class %q", got.Class)
		}
		if !utf8.ValidString(got.Message) || len(got.Message) > 600 || strings.ContainsAny(got.Message, "\n\r\x00") {
			t.Errorf("message %q", got.Message)
		}
		if strings.Contains(got.Message, key) || strings.Contains(got.Message, prompt) {
			t.Errorf("message tells: %q", got.Message)
		}
	})
}

// FuzzHeaders: whatever the headers of an answer say, a wait is within its bounds, and a request's id is one.
func FuzzHeaders(f *testing.F) {
	for _, s := range []string{"", "0", "1", "-1", "NaN", "1e309", "0x1p-2", "6m0s", "-2562047h47m16.854775808s", "Thu, 01 Oct 2026 12:00:30 GMT", "2026-10-01T12:00:30Z", "0000-01-01T00:00:00Z", "Mon, 01 Jan 0001 00:00:00 GMT", "١", "req_1", "a b", "\x00"} {
		f.Add(s, s, s)
		f.Add("", "", s)
	}
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s, ms, reset string) {
		h := http.Header{"Retry-After": {s}, "Retry-After-Ms": {ms}, "X-Request-Id": {reset}, "Request-Id": {s}, "X-Should-Retry": {s}}
		for _, name := range resets {
			h[http.CanonicalHeaderKey(name[0])], h[http.CanonicalHeaderKey(name[1])] = []string{"0"}, []string{reset}
		}
		if d := RetryAfter(h, now); d < 0 || d > MaxRetryAfter {
			t.Errorf("%q %q %q: %v", s, ms, reset, d)
		}
		if id := RequestID(h); len(id) > 200 || !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("id %q", id)
		}
	})
}
