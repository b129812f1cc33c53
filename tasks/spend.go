package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
	"unicode/utf8"
)

// Spending sums the ledger. A sum is that of the attempts as they stand, at once: every attempt but those that are under
// way, of which nobody knows yet. One of which nothing was heard when its task went on, or ended, without it is unknown
// from then on; what is learned later corrects that.
type Spending interface {
	// Spend reads a page of sums. ErrInvalid.
	Spend(ctx context.Context, q SpendQuery) (Spent, error)

	// FoldSpend adds up to limit changes of the ledger to the sums that are kept, and returns how many. It changes no
	// answer of Spend, only how much has to be read for it. Where several run, one of them does the work.
	FoldSpend(ctx context.Context, limit int) (int, error)
}

// SpendBy is what sums are made by.
type SpendBy string

const (
	SpendByDocument     SpendBy = "document" // and its version
	SpendByModel        SpendBy = "model"    // as reported by the provider, or as asked
	SpendByConversation SpendBy = "conversation"
	SpendByDay          SpendBy = "day" // in UTC, on which the attempt began
)

// SpendBys lists them.
var SpendBys = []SpendBy{SpendByDocument, SpendByModel, SpendByConversation, SpendByDay}

// SpendQuery asks for a page of sums, in the order of their keys.
type SpendQuery struct {
	Workspace string
	By        SpendBy
	Document  string    // only of this document, in all its versions; empty: of all, and of none
	From, To  time.Time // [From, To), whole days in UTC; zero: without a bound
	Limit     int       // 100 when 0; at most 1000
	After     *SpendKey // the sums behind this one; nil: from the first
}

// Check says, wrapping ErrInvalid, why there is no such page.
func (q SpendQuery) Check() error {
	switch q.By {
	case SpendByDocument, SpendByModel, SpendByConversation, SpendByDay:
	default:
		return fmt.Errorf("%w: spend by %q", ErrInvalid, q.By)
	}
	for _, t := range []time.Time{q.From, q.To} {
		if !t.IsZero() && !t.Equal(dayOf(t)) {
			return fmt.Errorf("%w: %s is not the beginning of a day in UTC", ErrInvalid, t)
		}
	}
	return nil
}

// SpendKey is what a sum is of: the field that SpendQuery.By names is set.
type SpendKey struct {
	Document     Document // the zero value: of no document
	Model        string
	Conversation string
	Day          time.Time // midnight UTC at its beginning
}

// Spend is a sum over attempts. Amounts are in picodollars, and of what is known: how many attempts are not in it is told
// beside it (I7).
type Spend struct {
	Attempts          int64
	UnknownAttempts   int64 // may have been charged, and nothing is known of them
	UnpricedAttempts  int64 // their tokens are known and their amount is not
	InputTokens       int64 // all of them, cached or not
	CachedInputTokens int64 // the part of them that was read from the provider's cache
	OutputTokens      int64
	ReasoningTokens   int64 // the part of them that nobody sees
	PicoUSD           int64
	// NotAccepted is the part that was paid for answers that did not become a reply: late ones, and failed ones. An answer
	// that a later attempt has recovered, and that was accepted then, is none of them.
	NotAccepted SpendPart
	// Saved is what was answered again: replays of tasks that had ended, on the day and at the cost of the replay.
	Saved SpendSaved
}

// SpendPart is a part of a sum.
type SpendPart struct {
	Attempts int64
	PicoUSD  int64
}

// SpendSaved is what was not spent.
type SpendSaved struct {
	Replays int64
	PicoUSD int64
}

// Known reports whether PicoUSD says anything: it does not where the amount of every attempt is unknown.
func (s Spend) Known() bool {
	return s.Attempts == 0 || s.UnknownAttempts+s.UnpricedAttempts < s.Attempts
}

// Zero reports whether the sum is of nothing.
func (s Spend) Zero() bool { return s == Spend{} }

// Add is the sum of both.
func (s Spend) Add(o Spend) Spend {
	return Spend{
		Attempts: s.Attempts + o.Attempts, UnknownAttempts: s.UnknownAttempts + o.UnknownAttempts,
		UnpricedAttempts: s.UnpricedAttempts + o.UnpricedAttempts,
		InputTokens:      AddAmounts(s.InputTokens, o.InputTokens), CachedInputTokens: AddAmounts(s.CachedInputTokens, o.CachedInputTokens),
		OutputTokens: AddAmounts(s.OutputTokens, o.OutputTokens), ReasoningTokens: AddAmounts(s.ReasoningTokens, o.ReasoningTokens),
		PicoUSD:     AddAmounts(s.PicoUSD, o.PicoUSD),
		NotAccepted: SpendPart{s.NotAccepted.Attempts + o.NotAccepted.Attempts, AddAmounts(s.NotAccepted.PicoUSD, o.NotAccepted.PicoUSD)},
		Saved:       SpendSaved{s.Saved.Replays + o.Saved.Replays, AddAmounts(s.Saved.PicoUSD, o.Saved.PicoUSD)},
	}
}

// SpendRow is one sum.
type SpendRow struct {
	SpendKey
	Spend
}

// Spent is a page of sums.
type Spent struct {
	Rows  []SpendRow
	Total Spend     // of all pages
	Next  *SpendKey // SpendQuery.After of the next page; nil: this is the last one
}

const (
	maxSpendName = 512 // bytes
	cutSpendName = 100 // characters
)

// SpendName is what a model or document is called in sums: the name itself, unless that is too long for an index.
func SpendName(name string) string {
	if len(name) <= maxSpendName {
		return name
	}
	end := 0
	for range cutSpendName {
		_, size := utf8.DecodeRuneInString(name[end:])
		end += size
	}
	sum := sha256.Sum256([]byte(name))
	return name[:end] + "#" + hex.EncodeToString(sum[:])
}

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }
