package llm

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// statusClass is the table of HTTP statuses; a range stands after its exceptions, the first match wins.
// Quota comes before it (see quota), and an unknown code falls through to its status.
var statusClass = []struct {
	from, to int
	class    Class
	config   bool // Failure.Config
}{
	{300, 399, Permanent, true}, // a redirect is not followed: it would put a second request on the wire
	{401, 401, Permanent, true},
	{402, 402, Quota, false},
	{403, 405, Permanent, true},
	{407, 407, Permanent, true},
	{408, 408, Ambiguous, false}, // the server or a proxy gave up; the model may be running
	{409, 409, Ambiguous, false},
	{429, 429, RateLimited, false},
	{499, 499, Ambiguous, false}, // a proxy's word for "the client went away"
	{400, 499, Permanent, false},
	{503, 503, Ambiguous, false}, // Overloaded when the provider itself says so
	{529, 529, Overloaded, false},
	{500, 599, Ambiguous, false},
}

// quotaCodes are the error types and codes that mean money, not pace.
var quotaCodes = []string{
	"insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded", "project_spend_limit_exceeded",
	"organization_usage_limit_exceeded", "billing_hard_limit_reached", "billing_not_active", "billing_error",
	"enforced_spend_limit_reached", "contract_spend_limit_reached", "insufficient_credits", "insufficient_balance",
}

// quotaTexts are said with a code that means something else.
var quotaTexts = []string{"reached your specified api usage limits", "credit balance is too low", "billing hard limit"}

// Refused classifies an answer whose status is not 2xx. hide are texts that must not appear in the message: the API
// key and the prompt, which a provider may repeat in its own words.
func Refused(resp Response, wire Wire, hide ...string) *Failure {
	said := DecodeError(resp.Body)
	f := &Failure{Status: resp.Status, Report: Report{WireRequests: wire.Requests, RequestID: RequestID(resp.Header)}}
	f.Class, f.Config = classOf(resp.Status)
	switch {
	case quota(resp.Status, said):
		f.Class, f.Config = Quota, false
	case resp.Status == http.StatusServiceUnavailable && said.Spoken:
		f.Class = Overloaded
	}
	if f.Class != Permanent {
		f.RetryAfter = RetryAfter(resp.Header, time.Now())
	}
	// The provider knows that a failure will stay one. Its "true" is not asked: it cannot make money safe.
	if resp.Header.Get("X-Should-Retry") == "false" {
		switch f.Class {
		case RateLimited, Overloaded:
			f.Class = Permanent
		case Ambiguous: // what it cost is as unknown as ever
			f.Final = true
		}
	}
	f.Message = refusal(resp.Status, said, hide)
	return f
}

func classOf(status int) (c Class, config bool) {
	for _, row := range statusClass {
		if status >= row.from && status <= row.to {
			return row.class, row.config
		}
	}
	return Ambiguous, false
}

func quota(status int, said ProviderError) bool {
	switch status {
	case 400, 403, 429:
	default:
		return false
	}
	if slices.Contains(quotaCodes, said.Code) || slices.Contains(quotaCodes, said.Type) {
		return true
	}
	text := strings.ToLower(said.Message)
	return slices.ContainsFunc(quotaTexts, func(t string) bool { return strings.Contains(text, t) })
}

func refusal(status int, said ProviderError, hide []string) string {
	msg := fmt.Sprintf("HTTP %d", status)
	if status >= 300 && status <= 399 {
		msg += ", a redirect, which is never followed: check the base URL"
	}
	if t := label(said.Type); t != "" {
		msg += " " + t
	}
	if c := label(said.Code); c != "" && c != said.Type {
		msg += " " + c
	}
	if said.Message != "" {
		msg += ": " + Extract(said.Message, hide...)
	}
	return msg
}

// Unfit is the failure of a 2xx answer that cannot be used as one: cut off, not JSON, an error in disguise. The request
// may have run, and what it cost is unknown unless the report says so.
func Unfit(why string, report Report, err error) *Failure {
	return &Failure{Class: Ambiguous, Message: why, Status: http.StatusOK, Err: err, Report: report}
}

// RequestID returns the provider's own id of a request, empty when it gave none that can be kept.
func RequestID(h http.Header) string {
	for _, name := range [...]string{"X-Request-Id", "Request-Id"} {
		id := h.Get(name)
		printable := strings.IndexFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
		if id != "" && len(id) <= 200 && printable {
			return id
		}
	}
	return ""
}
