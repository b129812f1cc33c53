package llm

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// priceColumns are the columns of a price table, in any order; the header names them. What is not needed may be left out.
var priceColumns = []string{
	"provider", "model", "input", "cached_input", "cache_write", "output", "batch_input", "batch_output",
	"tier_above", "tier_input", "tier_cached_input", "tier_cache_write", "tier_output", "date", "note",
}

var neededColumns = []string{"provider", "model", "input", "output", "date"}

// parsePrices reads a table; its versions are origin and the row's date.
func parsePrices(r io.Reader, origin string) (table, error) {
	in := csv.NewReader(r)
	in.Comment = '#'
	header, err := in.Read()
	if err == io.EOF {
		return nil, errors.New("prices: there is no header")
	}
	if err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	for i, name := range header {
		if !slices.Contains(priceColumns, name) || slices.Contains(header[:i], name) {
			return nil, fmt.Errorf("prices: header: column %q is unknown or there twice; columns are %s", name, strings.Join(priceColumns, ","))
		}
	}
	for _, name := range neededColumns {
		if !slices.Contains(header, name) {
			return nil, fmt.Errorf("prices: header: column %s is missing", name)
		}
	}
	out := table{}
	for {
		fields, err := in.Read()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("prices: %w", err)
		}
		line, _ := in.FieldPos(0)
		row := priceRow{header: header, fields: fields, line: line}
		name, r := row.read(origin)
		if _, twice := out[name]; twice && row.err == nil {
			row.fail("model", "a model that is there already")
		}
		if row.err != nil {
			return nil, row.err
		}
		out[name] = r
	}
}

// priceRow reads one row and keeps its first error.
type priceRow struct {
	header, fields []string
	line           int
	err            error
}

func (p *priceRow) read(origin string) (modelName, rates) {
	name := modelName{p.text("provider"), p.text("model")}
	r := rates{plain: p.tier("input", "cached_input", "cache_write", "output"), version: origin + p.text("date")}
	if _, err := time.Parse(time.DateOnly, p.text("date")); err != nil {
		p.fail("date", "a date like 2026-11-29")
	}
	if p.optional("batch_input")+p.optional("batch_output") != "" {
		r.batch = p.batch(r.plain)
	}
	if above := p.optional("tier_above"); above != "" {
		n, err := strconv.ParseInt(above, 10, 64)
		if err != nil || n <= 0 {
			p.fail("tier_above", "a number of tokens above 0")
		}
		r.tierAbove, r.above = n, p.tier("tier_input", "tier_cached_input", "tier_cache_write", "tier_output")
		return name, r
	}
	for _, column := range priceColumns {
		if strings.HasPrefix(column, "tier_") && p.optional(column) != "" {
			p.fail(column, "nothing without tier_above")
		}
	}
	return name, r
}

// tier reads four rates. A cache rate that is not stated is the plain input rate: too much at worst, and never nothing.
func (p *priceRow) tier(input, cachedInput, cacheWrite, output string) tier {
	t := tier{input: p.rate(input), output: p.rate(output)}
	t.cachedInput, t.cacheWrite = t.input, t.input
	if p.optional(cachedInput) != "" {
		t.cachedInput = p.rate(cachedInput)
	}
	if p.optional(cacheWrite) != "" {
		t.cacheWrite = p.rate(cacheWrite)
	}
	return t
}

// batch reads the rates of a batch. What they do not state of the cache is at most what it costs outside of one.
func (p *priceRow) batch(plain tier) *tier {
	t := &tier{input: p.rate("batch_input"), output: p.rate("batch_output")}
	t.cachedInput, t.cacheWrite = min(plain.cachedInput, t.input), t.input
	if p.optional("cache_write") != "" {
		t.cacheWrite = plain.cacheWrite
	}
	return t
}

func (p *priceRow) optional(column string) string {
	if i := slices.Index(p.header, column); i >= 0 {
		return p.fields[i]
	}
	return ""
}

func (p *priceRow) text(column string) string {
	s := p.optional(column)
	if s == "" || s != strings.TrimSpace(s) {
		p.fail(column, "a text without spaces around it")
	}
	return s
}

func (p *priceRow) rate(column string) int64 {
	pico, ok := parseRate(p.optional(column))
	if !ok {
		p.fail(column, "dollars for a million tokens, as in 1.25, with at most 6 decimals")
	}
	return pico
}

func (p *priceRow) fail(column, want string) {
	if p.err == nil {
		p.err = fmt.Errorf("prices: line %d, column %s: %q is not %s", p.line, column, p.optional(column), want)
	}
}

// parseRate turns dollars for a million tokens into picodollars for one: the same digits, six places on. A float could
// not hold 0.1.
func parseRate(s string) (int64, bool) {
	whole, fraction, dot := strings.Cut(s, ".")
	if whole == "" || len(whole) > 9 || len(fraction) > 6 || dot && fraction == "" {
		return 0, false
	}
	digits := whole + fraction + strings.Repeat("0", 6-len(fraction))
	if strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}
