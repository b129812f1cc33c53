package llm

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The documented failures of the providers, one row each: what the attempt is, whether another one may help, whether it
// may have cost money, and what it says of the provider.
func TestEveryDocumentedFailure(t *testing.T) {
	openai := func(typ, code, message string) string {
		return `{"error":{"message":"` + message + `","type":"` + typ + `","param":null,"code":"` + code + `"}}`
	}
	anthropic := func(typ, message string) string {
		return `{"type":"error","error":{"type":"` + typ + `","message":"` + message + `"},"request_id":"req_1"}`
	}
	const edge = "<html><head><title>502 Bad Gateway</title></head><body>cloudflare</body></html>"
	for _, c := range []struct {
		who     string
		status  int
		body    string
		headers string
		want    Class
		config  bool
		after   time.Duration
		breaker string // what this failure alone makes of it
	}{
		// OpenAI
		{"context length", 400, openai("invalid_request_error", "context_length_exceeded", "maximum context length"), "", Permanent, false, 0, "closed"},
		{"too long a string", 400, openai("invalid_request_error", "string_above_max_length", "m"), "", Permanent, false, 0, "closed"},
		{"bad model, as 400", 400, openai("invalid_request_error", "model_not_found", "m"), "", Permanent, false, 0, "closed"},
		{"wrong key", 401, openai("invalid_request_error", "invalid_api_key", "m"), "", Permanent, true, 0, "config"},
		{"address not allowed", 401, openai("invalid_request_error", "ip_not_authorized", "m"), "", Permanent, true, 0, "config"},
		{"country", 403, openai("request_forbidden", "unsupported_country_region_territory", "m"), "", Permanent, true, 0, "closed"},
		{"no such model", 404, openai("invalid_request_error", "model_not_found", "m"), "", Permanent, true, 0, "closed"},
		{"wrong path", 405, "", "", Permanent, true, 0, "closed"},
		{"timeout", 408, "", "", Ambiguous, false, 0, "closed"},
		{"conflict", 409, openai("conflict", "", "m"), "", Ambiguous, false, 0, "closed"},
		{"length required", 411, "", "", Permanent, false, 0, "closed"},
		{"too large", 413, "", "", Permanent, false, 0, "closed"},
		{"media type", 415, "", "", Permanent, false, 0, "closed"},
		{"unprocessable", 422, openai("invalid_request_error", "", "m"), "", Permanent, false, 0, "closed"},
		{"requests", 429, openai("requests", "rate_limit_exceeded", "m"), "Retry-After: 20", RateLimited, false, 20 * time.Second, "closed"},
		{"tokens, by the reset", 429, openai("tokens", "rate_limit_exceeded", "m"), "X-RateLimit-Remaining-Tokens: 0|X-RateLimit-Reset-Tokens: 6m0s", RateLimited, false, 6 * time.Minute, "closed"},
		{"ramp", 429, openai("requests", "slow_down", "m"), "Retry-After-Ms: 1500", RateLimited, false, 1500 * time.Millisecond, "closed"},
		{"quota", 429, openai("insufficient_quota", "insufficient_quota", "m"), "", Quota, false, 0, "quota"},
		{"credit", 429, openai("insufficient_quota", "credit_balance_exhausted", "m"), "", Quota, false, 0, "quota"},
		{"spend of the organization", 429, openai("x", "organization_spend_limit_exceeded", "m"), "", Quota, false, 0, "quota"},
		{"spend of the project", 429, openai("x", "project_spend_limit_exceeded", "m"), "", Quota, false, 0, "quota"},
		{"usage of the organization", 429, openai("x", "organization_usage_limit_exceeded", "m"), "", Quota, false, 0, "quota"},
		{"quota, and asked to retry", 429, openai("insufficient_quota", "insufficient_quota", "m"), "X-Should-Retry: true", Quota, false, 0, "quota"},
		{"server error", 500, openai("server_error", "", "m"), "", Ambiguous, false, 0, "closed"},
		{"edge", 502, edge, "", Ambiguous, false, 0, "closed"},
		{"edge timeout", 504, edge, "", Ambiguous, false, 0, "closed"},
		{"overloaded", 503, openai("service_unavailable", "", "overloaded"), "", Overloaded, false, 0, "closed"},
		{"slow down, as it was", 503, openai("server_error", "slow_down", "m"), "Retry-After: 5", Overloaded, false, 5 * time.Second, "closed"},
		{"unavailable edge", 503, edge, "", Ambiguous, false, 0, "closed"},

		// Anthropic
		{"bad request", 400, anthropic("invalid_request_error", "messages: too many"), "", Permanent, false, 0, "closed"},
		{"prompt too long", 400, anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), "", Permanent, false, 0, "closed"},
		{"own spend limit", 400, anthropic("invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2027-01-01."), "", Quota, false, 0, "quota"},
		{"no credit", 400, anthropic("invalid_request_error", "Your credit balance is too low to access the Anthropic API."), "", Quota, false, 0, "quota"},
		{"wrong key", 401, anthropic("authentication_error", "invalid x-api-key"), "", Permanent, true, 0, "config"},
		{"billing", 402, anthropic("billing_error", "m"), "", Quota, false, 0, "quota"},
		{"permission", 403, anthropic("permission_error", "m"), "", Permanent, true, 0, "closed"},
		{"billing, as forbidden", 403, anthropic("billing_error", "m"), "", Quota, false, 0, "quota"},
		{"no such model", 404, anthropic("not_found_error", "model: x"), "", Permanent, true, 0, "closed"},
		{"conflict", 409, anthropic("conflict_error", "m"), "", Ambiguous, false, 0, "closed"},
		{"too large, before the API", 413, edge, "", Permanent, false, 0, "closed"},
		{"rate", 429, anthropic("rate_limit_error", "m"), "Retry-After: 12", RateLimited, false, 12 * time.Second, "closed"},
		{"ramp", 429, `{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"ramp_limit_exceeded"}}}`, "Retry-After: 3", RateLimited, false, 3 * time.Second, "closed"},
		{"enforced spend", 429, `{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}`, "", Quota, false, 0, "quota"},
		{"contract spend", 429, `{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"contract_spend_limit_reached"}}}`, "", Quota, false, 0, "quota"},
		{"api error", 500, anthropic("api_error", "m"), "", Ambiguous, false, 0, "closed"},
		{"key unreachable", 503, anthropic("cmek_key_unreachable", "m"), "", Overloaded, false, 0, "closed"},
		{"timeout", 504, anthropic("timeout_error", "timed out while processing"), "", Ambiguous, false, 0, "closed"},
		{"overloaded", 529, anthropic("overloaded_error", "Overloaded"), "", Overloaded, false, 0, "closed"},
		{"a type that is not known yet", 400, anthropic("brand_new_error", "m"), "", Permanent, false, 0, "closed"},
		{"a type that is not known yet", 500, anthropic("brand_new_error", "m"), "", Ambiguous, false, 0, "closed"},

		// Compatible servers, and what stands in front of them
		{"OpenRouter: no credit", 402, `{"error":{"code":402,"message":"Insufficient credits"}}`, "", Quota, false, 0, "quota"},
		{"Ollama: string error", 404, `{"error":"model 'x' not found"}`, "", Permanent, true, 0, "closed"},
		{"llama.cpp: context", 400, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, "", Permanent, false, 0, "closed"},
		{"vLLM: context", 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens","type":"BadRequestError","code":400}`, "", Permanent, false, 0, "closed"},
		{"LiteLLM: null", 500, "null", "", Ambiguous, false, 0, "closed"},
		{"a login page", 302, "", "Location: https://login.example.org", Permanent, true, 0, "closed"},
		{"moved", 308, "", "Location: https://elsewhere.example.org", Permanent, true, 0, "closed"},
		{"a proxy that wants a password", 407, edge, "", Permanent, true, 0, "config"},
		{"the client went away", 499, "", "", Ambiguous, false, 0, "closed"},
		{"edge: web server is down", 521, edge, "", Ambiguous, false, 0, "closed"},
	} {
		t.Run(c.who, func(t *testing.T) {
			h := http.Header{}
			for line := range strings.SplitSeq(c.headers, "|") {
				if k, v, ok := strings.Cut(line, ": "); ok {
					h.Set(k, v)
				}
			}
			f := Refused(Response{Status: c.status, Header: h, Body: []byte(c.body)}, Wire{Requests: 1})
			if f.Class != c.want || f.Config != c.config || f.RetryAfter != c.after || f.Final || f.Usage != nil || f.Status != c.status {
				t.Errorf("%s, config %v, after %v: %s", f.Class, f.Config, f.RetryAfter, f.Message)
			}
			if f.Class.MayBeCharged() != (c.want == Ambiguous) || f.Class.Retryable() != (c.want == RateLimited || c.want == Overloaded || c.want == Ambiguous) {
				t.Errorf("%s: charged %v, retryable %v", f.Class, f.Class.MayBeCharged(), f.Class.Retryable())
			}
			g := newClocked(GateConfig{})
			_, _ = g.Admit("w")
			g.Done("w", 0, f)
			if s := g.State(); s.Breaker == "closed" && c.breaker != "closed" || s.Breaker != "closed" && s.Reason != c.breaker {
				t.Errorf("breaker %+v, want %s", s, c.breaker)
			}
		})
	}
}

// X-Should-Retry: "false" turns every failure that could be tried again into one that is not, and leaves open what was
// paid; "true" turns nothing.
func TestShouldRetry(t *testing.T) {
	for status := 300; status < 600; status++ {
		plain := Refused(Response{Status: status, Header: http.Header{}}, Wire{Requests: 1})
		yes := Refused(Response{Status: status, Header: http.Header{"X-Should-Retry": {"true"}}}, Wire{Requests: 1})
		no := Refused(Response{Status: status, Header: http.Header{"X-Should-Retry": {"false"}}}, Wire{Requests: 1})
		if yes.Class != plain.Class || yes.Final {
			t.Errorf("status %d: true made %s of %s", status, yes.Class, plain.Class)
		}
		if no.Class.Retryable() && !no.Final {
			t.Errorf("status %d: %s is tried again", status, no.Class)
		}
		if no.Class.MayBeCharged() != plain.Class.MayBeCharged() {
			t.Errorf("status %d: false changed whether it may be charged", status)
		}
	}
}
