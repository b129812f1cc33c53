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

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "1", "-1", "NaN", "1e309", "0x1p-2", "Thu, 01 Oct 2026 12:00:30 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "١"} {
		f.Add(s, s)
	}
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s, ms string) {
		h := http.Header{"Retry-After": {s}, "Retry-After-Ms": {ms}}
		if d := RetryAfter(h, now); d < 0 || d > MaxRetryAfter {
			t.Errorf("%q %q: %v", s, ms, d)
		}
	})
}
