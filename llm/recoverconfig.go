package llm

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// RecoveryConfig is the operator's word on how lost answers are recovered. The zero value declares no way.
type RecoveryConfig struct {
	Kind Recovery
	// Header carries the key of RecoverKey; "Idempotency-Key" when empty.
	Header string
	// Retention is how long after its beginning a call can be found, or its key is remembered: an older one is not asked
	// for. 30 days when 0, as OpenAI keeps what it was told to store; RecoverKey has no default, since a key that was
	// forgotten buys a second answer.
	Retention time.Duration
	// SettleDelay is the age up to which a call that cannot be found may still appear: its generation and the time the
	// server takes to show it. 2 min when 0 for RecoverStored, which shows whole answers only; 15 s for RecoverBackground.
	SettleDelay time.Duration
	// PollEvery is the time between two questions; 1 s when 0.
	PollEvery time.Duration
	// InProgress and Conflict are the statuses by which a server that knows the key of RecoverKey says that its request is
	// still being carried out (409 when 0), and that its request was another one (422 when 0).
	InProgress, Conflict int
}

// Check names what is wrong with c. kinds are the ways that the adapter has.
func (c RecoveryConfig) Check(kinds ...Recovery) error {
	if c.Kind == "" || c.Kind == RecoverNone {
		return nil
	}
	if !slices.Contains(kinds, c.Kind) {
		return fmt.Errorf("recovery by %q is not possible with this API: it has %s", string(c.Kind), kindList(kinds))
	}
	if c.Retention < 0 || c.SettleDelay < 0 || c.PollEvery < 0 {
		return errors.New("recovery: a duration is negative")
	}
	if c.Kind != RecoverKey {
		return nil
	}
	c = c.WithDefaults()
	switch {
	case !isToken(c.Header) || slices.Contains(ownHeaders, http.CanonicalHeaderKey(c.Header)):
		return fmt.Errorf("recovery: %q cannot be the header of a key", c.Header)
	case c.Retention == 0:
		return errors.New("recovery by idempotency-key needs to be told how long the server documents to remember a key")
	case !isRefusal(c.InProgress) || !isRefusal(c.Conflict) || c.InProgress == c.Conflict:
		return errors.New("recovery: the statuses for a key in progress and for a conflict must be two different ones from 400 to 599")
	}
	return nil
}

// WithDefaults fills in what c leaves open.
func (c RecoveryConfig) WithDefaults() RecoveryConfig {
	if c.Kind == "" {
		c.Kind = RecoverNone
	}
	if c.Header == "" {
		c.Header = "Idempotency-Key"
	}
	if c.Retention == 0 && c.Kind != RecoverKey {
		c.Retention = 30 * 24 * time.Hour
	}
	if c.SettleDelay == 0 {
		c.SettleDelay = 15 * time.Second
		if c.Kind == RecoverStored {
			c.SettleDelay = 2 * time.Minute
		}
	}
	if c.PollEvery == 0 {
		c.PollEvery = time.Second
	}
	if c.InProgress == 0 {
		c.InProgress = http.StatusConflict
	}
	if c.Conflict == 0 {
		c.Conflict = http.StatusUnprocessableEntity
	}
	return c
}

// ownHeaders have a meaning of their own, which a key would overwrite.
var ownHeaders = []string{
	"Authorization", "X-Api-Key", "Anthropic-Version", "Content-Type", "Content-Length", "Transfer-Encoding", "Host", "Connection",
	"Accept", "Accept-Encoding", "Expect", "Trailer", "Te", "Upgrade", "Traceparent", "User-Agent", "Proxy-Authorization", "Cookie",
}

func isToken(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) < 0
}

func isRefusal(status int) bool { return status >= 400 && status <= 599 }

func kindList(kinds []Recovery) string {
	if len(kinds) == 0 {
		return "none"
	}
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, ", ")
}
