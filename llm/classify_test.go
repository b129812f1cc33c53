package llm

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestRefused(t *testing.T) {
	openaiError := func(typ, code string) string {
		return `{"error":{"message":"said","type":"` + typ + `","param":null,"code":"` + code + `"}}`
	}
	for _, c := range []struct {
		name   string
		status int
		header string
		body   string
		want   Class
		says   string
		after  time.Duration
	}{
		{"bad request", 400, "", openaiError("invalid_request_error", "context_length_exceeded"), Permanent, "HTTP 400 invalid_request_error context_length_exceeded: said", 0},
		{"no key", 401, "", openaiError("invalid_request_error", "invalid_api_key"), Permanent, "invalid_api_key", 0},
		{"forbidden", 403, "", `{"error":{"message":"country"}}`, Permanent, "HTTP 403: country", 0},
		{"no model", 404, "", `{"error":"model not found"}`, Permanent, "HTTP 404: model not found", 0},
		{"method", 405, "", "", Permanent, "HTTP 405", 0},
		{"too large", 413, "", "<html>cloudflare</html>", Permanent, "HTTP 413", 0},
		{"media type", 415, "", "", Permanent, "", 0},
		{"unprocessable", 422, "", `{"detail":"field"}`, Permanent, "HTTP 422: field", 0},
		{"unknown 4xx", 418, "Retry-After: 3", "", Permanent, "", 0},
		{"timeout", 408, "", "", Ambiguous, "", 0},
		{"conflict", 409, "", openaiError("conflict", ""), Ambiguous, "", 0},
		{"client closed", 499, "", "", Ambiguous, "", 0},
		{"rate", 429, "Retry-After: 7", openaiError("requests", "rate_limit_exceeded"), RateLimited, "rate_limit_exceeded", 7 * time.Second},
		{"rate, nothing said", 429, "", "", RateLimited, "HTTP 429", 0},
		{"rate, html", 429, "Retry-After-Ms: 1500", "<html>slow down</html>", RateLimited, "HTTP 429", 1500 * time.Millisecond},
		{"rate, refusal for good", 429, "X-Should-Retry: false", openaiError("requests", "rate_limit_exceeded"), Permanent, "", 0},
		{"quota by type", 429, "", openaiError("insufficient_quota", "insufficient_quota"), Quota, "HTTP 429 insufficient_quota: said", 0},
		{"quota by code", 429, "", openaiError("x", "project_spend_limit_exceeded"), Quota, "", 0},
		{"quota by details", 429, "", `{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}`, Quota, "", 0},
		{"quota by text", 400, "", `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}`, Quota, "", 0},
		{"quota, forbidden", 403, "", openaiError("billing_error", ""), Quota, "", 0},
		{"payment", 402, "", "null", Quota, "HTTP 402", 0},
		{"quota code on another status", 500, "", openaiError("insufficient_quota", ""), Ambiguous, "", 0},
		{"numeric code", 429, "", `{"error":{"message":"m","code":429}}`, RateLimited, "HTTP 429 429: m", 0},
		{"list", 429, "", `[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}]`, RateLimited, ": m", 0},
		{"server", 500, "", openaiError("server_error", ""), Ambiguous, "", 0},
		{"server says retry", 500, "X-Should-Retry: true", "", Ambiguous, "", 0},
		{"server says no", 500, "X-Should-Retry: false", "", Ambiguous, "", 0},
		{"gateway", 502, "", "<html>502</html>", Ambiguous, "HTTP 502", 0},
		{"gateway timeout", 504, "", `{"error":{"type":"timeout_error","message":"m"}}`, Ambiguous, "", 0},
		{"unavailable, provider", 503, "Retry-After: 2", openaiError("overloaded_error", "slow_down"), Overloaded, "slow_down", 2 * time.Second},
		{"unavailable, string", 503, "", `{"error":"busy"}`, Overloaded, "busy", 0},
		{"unavailable, vLLM", 503, "", `{"object":"error","message":"busy","code":503}`, Overloaded, "busy", 0},
		{"unavailable, html", 503, "Retry-After: 2", "<html>", Ambiguous, "", 2 * time.Second},
		{"unavailable, a gateway's JSON", 503, "", `{"message":"no healthy upstream"}`, Ambiguous, "no healthy upstream", 0},
		{"unavailable, null", 503, "", "null", Ambiguous, "", 0},
		{"unavailable, null error", 503, "", `{"error":null}`, Ambiguous, "", 0},
		{"overloaded", 529, "", "", Overloaded, "", 0},
		{"odd 5xx", 599, "", "", Ambiguous, "", 0},
		{"redirect", 307, "Location: http://elsewhere", "", Permanent, "base URL", 0},
		{"not modified", 304, "", "", Permanent, "", 0},
		{"beyond statuses", 700, "", "", Ambiguous, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{"X-Request-Id": {"req_1"}}
			if k, v, ok := strings.Cut(c.header, ": "); ok {
				h.Set(k, v)
			}
			f := Refused(Response{Status: c.status, Header: h, Body: []byte(c.body)}, Wire{Requests: 1})
			if f.Class != c.want || !strings.Contains(f.Message, c.says) || f.RetryAfter != c.after {
				t.Errorf("got %s %q after %v; want %s %q after %v", f.Class, f.Message, f.RetryAfter, c.want, c.says, c.after)
			}
			if f.Status != c.status || f.WireRequests != 1 || f.RequestID != "req_1" || f.Usage != nil {
				t.Errorf("report %+v", f)
			}
		})
	}
}

// Every status has a class, and only those that prove a refusal cost nothing.
func TestI7_EveryStatusIsClassified(t *testing.T) {
	free := map[int]bool{402: true, 429: true, 529: true}
	for status := 300; status < 1000; status++ {
		f := Refused(Response{Status: status, Header: http.Header{}}, Wire{Requests: 1})
		refused := free[status] || status < 500 && status != 408 && status != 409 && status != 499
		if f.Class.MayBeCharged() == refused {
			t.Errorf("status %d: class %s", status, f.Class)
		}
	}
}

func TestMessageHidesKeyAndPrompt(t *testing.T) {
	key := "sk-secret-0123456789"
	prompt := "Tell me, doctor, what the red spots on my left arm may be, I am worried"
	for _, said := range []string{
		"Incorrect API key provided: " + key,
		"could not parse: " + prompt,
		"could not parse near: " + prompt[17:50],
		prompt,
	} {
		resp := Response{Status: 400, Header: http.Header{}, Body: []byte(`{"error":{"message":"` + said + `","type":"x"}}`)}
		f := Refused(resp, Wire{Requests: 1}, key, prompt)
		for _, bad := range []string{key, "red spots", "worried", "doctor"} {
			if strings.Contains(f.Error(), bad) {
				t.Errorf("%q says %q", f.Error(), bad)
			}
		}
	}
	long := Response{Status: 400, Header: http.Header{}, Body: []byte(`{"error":{"message":"` + strings.Repeat("ä\\n", 1000) + `","type":"` + strings.Repeat("t", 100) + `"}}`)}
	f := Refused(long, Wire{})
	if len(f.Message) > maxMessage+len("HTTP 400: ") || !utf8.ValidString(f.Message) || strings.Contains(f.Message, "\n") {
		t.Errorf("%d bytes: %q", len(f.Message), f.Message)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		header string
		want   time.Duration
	}{
		{"", 0},
		{"Retry-After: 3", 3 * time.Second},
		{"Retry-After: 0.25", 250 * time.Millisecond},
		{"Retry-After:  12 ", 12 * time.Second},
		{"Retry-After: 0", 0},
		{"Retry-After: -5", 0},
		{"Retry-After: NaN", 0},
		{"Retry-After: +Inf", 0},
		{"Retry-After: 1e300", MaxRetryAfter},
		{"Retry-After: 86400", MaxRetryAfter},
		{"Retry-After: soon", 0},
		{"Retry-After: 5s", 0},
		{"Retry-After: Thu, 01 Oct 2026 12:00:30 GMT", 30 * time.Second},
		{"Retry-After: Thursday, 01-Oct-26 12:00:30 GMT", 30 * time.Second},
		{"Retry-After: Thu, 01 Oct 2026 11:00:00 GMT", 0},
		{"Retry-After: Fri, 01 Oct 2027 11:00:00 GMT", MaxRetryAfter},
		{"Retry-After-Ms: 1500", 1500 * time.Millisecond},
		{"Retry-After-Ms: 0.5", 500 * time.Microsecond},
		{"Retry-After-Ms: -1", 0},
		{"Retry-After-Ms: 99999999999", MaxRetryAfter},
		{"X-Ms-Retry-After-Ms: 20", 20 * time.Millisecond},
		{"Retry-After-Ms: 20\nRetry-After: 7", 20 * time.Millisecond},
		{"Retry-After-Ms: junk\nRetry-After: 7", 7 * time.Second},

		// What remains and when it is renewed, where nothing else is said.
		{"X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 1s", time.Second},
		{"X-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 6m0s", 6 * time.Minute},
		{"X-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 17.5ms", 17500 * time.Microsecond},
		{"X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 1s\nX-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 3s", 3 * time.Second},
		{"X-RateLimit-Remaining-Requests: 5\nX-RateLimit-Reset-Requests: 9s\nX-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 3s", 3 * time.Second},
		{"X-RateLimit-Remaining-Requests: 5\nX-RateLimit-Reset-Requests: 9s", 0},
		{"X-RateLimit-Reset-Requests: 9s", 0},
		{"X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 48h", MaxRetryAfter},
		{"X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: -3s", 0},
		{"X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: soon", 0},
		{"X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 30", 0},
		{"X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 30s\nRetry-After: 7", 7 * time.Second},
		{"X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 30s\nRetry-After: 0", 0},
		{"X-RateLimit-Remaining-Requests: 0\nX-RateLimit-Reset-Requests: 30s\nRetry-After: junk", 30 * time.Second},
		{"Anthropic-RateLimit-Requests-Remaining: 0\nAnthropic-RateLimit-Requests-Reset: 2026-10-01T12:00:20Z", 20 * time.Second},
		{"Anthropic-RateLimit-Tokens-Remaining: 0\nAnthropic-RateLimit-Tokens-Reset: 2026-10-01T12:01:00Z", time.Minute},
		{"Anthropic-RateLimit-Input-Tokens-Remaining: 0\nAnthropic-RateLimit-Input-Tokens-Reset: 2026-10-01T14:00:05+02:00", 5 * time.Second},
		{"Anthropic-RateLimit-Output-Tokens-Remaining: 0\nAnthropic-RateLimit-Output-Tokens-Reset: 2026-10-01T11:59:00Z", 0},
		{"Anthropic-RateLimit-Output-Tokens-Remaining: 12\nAnthropic-RateLimit-Output-Tokens-Reset: 2026-10-01T12:59:00Z", 0},
		{"Anthropic-RateLimit-Output-Tokens-Remaining: 0\nAnthropic-RateLimit-Output-Tokens-Reset: 2026-10-02T12:59:00Z", MaxRetryAfter},
	} {
		h := http.Header{}
		for line := range strings.SplitSeq(c.header, "\n") {
			if k, v, ok := strings.Cut(line, ": "); ok {
				h.Set(k, v)
			}
		}
		if got := RetryAfter(h, now); got != c.want {
			t.Errorf("%q: %v, want %v", c.header, got, c.want)
		}
	}
}

func TestFinish(t *testing.T) {
	usage := &Usage{InputTokens: 1, OutputTokens: 2}
	for _, c := range []struct {
		reason, text string
		class        Class
		finish       string
	}{
		{"stop", "hello", "", "stop"},
		{"end_turn", "hello", "", "stop"},
		{"length", "hel", "", "length"},
		{"max_tokens", "hel", "", "length"},
		{"stop", "", RejectedOutput, ""},
		{"stop", " \n\t", RejectedOutput, ""},
		{"stop", "\x00", RejectedOutput, ""},
		{"length", "", RejectedOutput, ""},
		{"content_filter", "half an", RejectedOutput, ""},
		{"refusal", "I cannot", RejectedOutput, ""},
		{"tool_calls", "", RejectedOutput, ""},
		{"function_call", "x", RejectedOutput, ""},
		{"", "hello", Ambiguous, ""},
		{"error", "hello", Ambiguous, ""},
		{"STOP", "hello", Ambiguous, ""},
		{"something\nnew", "hello", Ambiguous, ""},
	} {
		a, err := Finish(c.reason, c.text, Report{WireRequests: 1, Usage: usage})
		if c.class == "" {
			if err != nil || a.FinishReason != c.finish || a.Text != c.text || a.Usage != usage || a.WireRequests != 1 {
				t.Errorf("%q %q: %+v, %v", c.reason, c.text, a, err)
			}
			continue
		}
		f, ok := err.(*Failure)
		if !ok || f.Class != c.class || f.Usage != usage || strings.ContainsAny(f.Message, "\n") {
			t.Errorf("%q %q: %+v, %v", c.reason, c.text, a, err)
		}
	}
	a, err := Finish("stop", "a\x00b\xff\xfec\n", Report{})
	if err != nil || a.Text != "ab\uFFFDc\n" {
		t.Errorf("%q, %v", a.Text, err)
	}
}
