package llm

import (
	_ "embed"
	"encoding/json"
	"io"
	"math"
	"math/bits"
	"strings"
	"sync"
	"time"
)

// Prices says what a call costs, in picodollars (1e-12 USD): a list price of dollars for a million tokens is a whole
// number of them for one token, so that amounts are exact. It is safe for concurrent use.
type Prices struct {
	tables []table // the first that knows a model decides: the operator's before the embedded one
}

// table is one list of prices, by provider and model.
type table map[modelName]rates

type modelName struct{ provider, model string }

// rates are picodollars for one token of each kind.
type rates struct {
	plain     tier
	batch     *tier // nil: not stated
	tierAbove int64 // 0: there is no second tier
	above     tier
	version   string
}

type tier struct{ input, cachedInput, cacheWrite, output int64 }

//go:embed prices.csv
var embeddedCSV string

var embeddedTable = sync.OnceValues(func() (table, error) { return parsePrices(strings.NewReader(embeddedCSV), "") })

// ListPrices are the prices the program was built with.
func ListPrices() *Prices {
	t, err := embeddedTable()
	if err != nil {
		panic(err) // a defect of the build: a test parses the same bytes
	}
	return &Prices{tables: []table{t}}
}

// Override returns prices in which the rows read from r come first. They have the columns of the embedded table. A row
// for a model speaks for its dated snapshots, too, unless a row of r names them: providers answer with the snapshot's
// name, and a price agreed for the model would never be used otherwise. A bad row is an error with its line and column.
func (p *Prices) Override(r io.Reader) (*Prices, error) {
	t, err := parsePrices(r, "file:")
	if err != nil {
		return nil, err
	}
	return &Prices{tables: append([]table{t}, p.tables...)}, nil
}

// Cost is what u costs, and the version of the price it was taken at, which names the service tier when it is not the
// usual one. ok is false when there is no price for the model or for that tier, or no amount that can be written down: the
// cost is then unknown, never 0.
func (p *Prices) Cost(provider, model string, u Usage) (pico int64, version string, ok bool) {
	r, ok := p.find(provider, model)
	if !ok {
		return 0, "", false
	}
	t, version, ok := r.of(u)
	if !ok {
		return 0, "", false
	}
	pico, ok = sum(
		part{u.InputTokens, t.input}, part{u.CachedInputTokens, t.cachedInput}, part{u.CacheWriteTokens, t.cacheWrite}, part{u.OutputTokens, t.output},
	)
	if !ok {
		return 0, "", false
	}
	return pico, version, true
}

// Most is the most that a call of so many tokens can cost at the list price, whatever part of its input is written to a
// cache: what to reserve before it. ok is false where Cost could not name an amount either.
func (p *Prices) Most(provider, model string, inputTokens, outputTokens int64) (pico int64, ok bool) {
	r, ok := p.find(provider, model)
	if !ok {
		return 0, false
	}
	input, output := r.plain.dearestInput(), r.plain.output
	if r.tierAbove > 0 && inputTokens > r.tierAbove {
		input, output = max(input, r.above.dearestInput()), max(output, r.above.output)
	}
	return sum(part{inputTokens, input}, part{outputTokens, output})
}

// listTiers are the words for calls billed at the list price. A tier that is not among them costs more or less than that.
var listTiers = map[string]bool{"": true, "auto": true, "default": true, "standard": true}

// LongCache ends the tier of a call that wrote to a cache for longer than the list's rate for writing is meant for: Anthropic
// takes 2 times the input's price for an hour, and 1.25 times for five minutes. The table has no such rate.
const LongCache = "/long-cache"

// ServiceTier reads the name of a tier as a provider reports it. Absent and null is none; what is no name is a tier that
// has no price.
func ServiceTier(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil && label(s) == s {
		return s
	}
	return "unreadable"
}

// of chooses the rates of a whole call.
func (r rates) of(u Usage) (t tier, version string, ok bool) {
	long := r.tierAbove > 0 && u.Input() > r.tierAbove
	switch {
	case u.Tier == "batch" && r.batch != nil && !long: // nobody states what a long one costs in a batch
		return *r.batch, r.version + "/batch", true
	case !listTiers[u.Tier]:
		return tier{}, "", false
	case long:
		return r.above, r.version, true
	}
	return r.plain, r.version, true
}

func (t tier) dearestInput() int64 { return max(t.input, t.cachedInput, t.cacheWrite) }

type part struct{ tokens, rate int64 }

// sum adds up what parts cost, and says whether that is an amount.
func sum(parts ...part) (pico int64, ok bool) {
	var sum uint64
	for _, p := range parts {
		if p.tokens < 0 {
			return 0, false
		}
		high, low := bits.Mul64(uint64(p.tokens), uint64(p.rate))
		total, carry := bits.Add64(sum, low, 0)
		if high != 0 || carry != 0 || total > math.MaxInt64 {
			return 0, false
		}
		sum = total
	}
	return int64(sum), true
}

func (p *Prices) find(provider, model string) (rates, bool) {
	base, dated := undated(model)
	for _, t := range p.tables {
		if r, ok := t[modelName{provider, model}]; ok {
			return r, true
		}
		if r, ok := t[modelName{provider, base}]; ok && dated {
			return r, true
		}
	}
	return rates{}, false
}

// undated cuts the date of a snapshot off a model's name: gpt-5-mini-2025-08-07, claude-haiku-4-5-20251001. Nothing else
// is taken for one: a name that only resembles another may cost ten times as much.
func undated(model string) (string, bool) {
	for _, layout := range [...]string{"-2006-01-02", "-20060102"} {
		at := len(model) - len(layout)
		if at <= 0 {
			continue
		}
		if d, err := time.Parse(layout, model[at:]); err == nil && d.Year() >= 2020 && d.Year() < 2100 {
			return model[:at], true
		}
	}
	return "", false
}
