package llm

// Class says what a failed call means for the next one.
type Class string

const (
	NotSent        Class = "not_sent"        // nothing reached the provider: no cost, retry freely
	RateLimited    Class = "rate_limited"    // refused before the model ran: wait
	Overloaded     Class = "overloaded"      // refused because the provider is busy: wait
	Ambiguous      Class = "ambiguous"       // the request may have run and may be billed
	Permanent      Class = "permanent"       // the same request will fail again
	Quota          Class = "quota"           // billing or spend limit: retrying does not restore access
	Cancelled      Class = "cancelled"       // our own context ended after the request was sent
	RejectedOutput Class = "rejected_output" // a complete answer that cannot be accepted: refusal, filter, empty
)

// Classes lists every class, for tables and metrics.
var Classes = []Class{NotSent, RateLimited, Overloaded, Ambiguous, Permanent, Quota, Cancelled, RejectedOutput}

// Retryable reports whether another attempt may succeed. Ambiguous is retryable only when the task's policy accepts a
// second charge; Cancelled depends on the cause and is the caller's to decide.
func (c Class) Retryable() bool {
	switch c {
	case NotSent, RateLimited, Overloaded, Ambiguous:
		return true
	}
	return false
}

// MayBeCharged reports whether a failed attempt of this class that reported no usage has an unknown cost rather than none.
func (c Class) MayBeCharged() bool {
	switch c {
	case Ambiguous, Cancelled, RejectedOutput:
		return true
	}
	return false
}
