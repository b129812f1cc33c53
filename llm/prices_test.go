package llm

import (
	"math"
	"math/big"
	"strings"
	"testing"
)

func override(t *testing.T, rows string) *Prices {
	t.Helper()
	p, err := ListPrices().Override(strings.NewReader("provider,model,input,cached_input,cache_write,output,tier_above,tier_input,tier_cached_input,tier_cache_write,tier_output,date,batch_input,batch_output\n" + rows))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The expected amounts are written by hand from the providers' lists: tokens times dollars for a million of them.
func TestCost(t *testing.T) {
	list := ListPrices()
	own := override(t, `own,free,0,,,0,,,,,,2026-12-01,,
own,tiny,0.000001,,,0.000001,,,,,,2026-12-01,,
own,two,0.000001,,,0.000002,,,,,,2026-12-01,,
own,tiers,1,0.5,2,4,1000,10,5,20,40,2026-12-01,,
own,batch,8,1,10,16,100,9,,,18,2026-12-01,4,7
own,batch2,8,,,16,,,,,,2026-12-01,4,7
own,dear,999999999,,,999999999,,,,,,2026-12-01,,
openai,gpt-5-mini,1,,,1,,,,,,2026-12-01,,
`)
	if len(list.tables[0]) < 250 {
		t.Errorf("the table has %d models", len(list.tables[0]))
	}
	const unknown = -1
	for _, c := range []struct {
		name            string
		prices          *Prices
		provider, model string
		usage           Usage
		want            int64
		version         string
	}{
		{"input and output", list, "openai", "gpt-5-mini", Usage{InputTokens: 1000, OutputTokens: 10}, 1000*250_000 + 10*2_000_000, "2026-11-29"},
		{"one token of a cheap model", list, "anthropic", "claude-haiku-5-5", Usage{CachedInputTokens: 1}, 10_000, "2026-11-29"},
		{"every kind", list, "anthropic", "claude-sonnet-4-5", Usage{InputTokens: 1, CachedInputTokens: 10, CacheWriteTokens: 100, OutputTokens: 1000, ReasoningTokens: 900},
			3_000_000 + 10*300_000 + 100*3_750_000 + 1000*15_000_000, "2026-11-29"},
		{"nothing used", list, "openai", "gpt-5-mini", Usage{}, 0, "2026-11-29"},
		{"cache write without a rate", list, "openai", "gpt-5-mini", Usage{CacheWriteTokens: 4}, 4 * 250_000, "2026-11-29"},
		{"cache write listed at 0", list, "deepseek", "deepseek-chat", Usage{CacheWriteTokens: 4}, 4 * 280_000, "2026-11-29"},
		{"cached without a rate", list, "sim", "sim-1", Usage{CachedInputTokens: 4}, 4 * 1_000_000, "2026-11-29"},

		{"at the tier's border", list, "openai", "gpt-5.4", Usage{InputTokens: 272_000, OutputTokens: 1}, 272_000*2_500_000 + 15_000_000, "2026-11-29"},
		{"above it", list, "openai", "gpt-5.4", Usage{InputTokens: 272_001, OutputTokens: 1}, 272_001*5_000_000 + 22_500_000, "2026-11-29"},
		{"above it with cached input", list, "openai", "gpt-5.4", Usage{InputTokens: 1, CachedInputTokens: 271_000, CacheWriteTokens: 1000}, 272_001 * 5_000_000, "2026-11-29"},
		{"rates of a tier", own, "own", "tiers", Usage{InputTokens: 999, CachedInputTokens: 1, CacheWriteTokens: 1, OutputTokens: 1},
			999*10_000_000 + 5_000_000 + 20_000_000 + 40_000_000, "file:2026-12-01"},

		{"listed snapshot", list, "anthropic", "claude-haiku-4-5-20251001", Usage{InputTokens: 1}, 1_000_000, "2026-11-29"},
		{"snapshot that is not listed", list, "openai", "gpt-5-mini-2031-02-03", Usage{InputTokens: 1}, 250_000, "2026-11-29"},
		{"the other form", list, "anthropic", "claude-sonnet-4-6-20310203", Usage{InputTokens: 1}, 3_000_000, "2026-11-29"},
		{"no date", list, "openai", "gpt-5-mini-2031-13-03", Usage{InputTokens: 1}, unknown, ""},
		{"no date either", list, "anthropic", "claude-sonnet-4-6-00000000", Usage{InputTokens: 1}, unknown, ""},
		{"a date before there were models", list, "anthropic", "claude-sonnet-4-6-19990203", Usage{InputTokens: 1}, unknown, ""},
		{"a version", list, "openai", "gpt-5-mini-2", Usage{InputTokens: 1}, unknown, ""},
		{"a variant", list, "openai", "gpt-5-mini-fast", Usage{InputTokens: 1}, unknown, ""},
		{"a beginning", list, "openai", "gpt-5-min", Usage{InputTokens: 1}, unknown, ""},
		{"another case", list, "openai", "GPT-5-mini", Usage{InputTokens: 1}, unknown, ""},
		{"a date alone", list, "openai", "-2031-02-03", Usage{InputTokens: 1}, unknown, ""},
		{"two dates", list, "openai", "gpt-5-mini-2031-02-03-2031-02-03", Usage{InputTokens: 1}, unknown, ""},
		{"nothing", list, "", "", Usage{InputTokens: 1}, unknown, ""},
		{"another provider", list, "own", "gpt-5-mini", Usage{InputTokens: 1}, unknown, ""},
		{"listed at 0", list, "gemini", "gemini-exp-1206", Usage{InputTokens: 1}, unknown, ""},

		{"default tier", list, "openai", "gpt-5-mini", Usage{InputTokens: 1, Tier: "default"}, 250_000, "2026-11-29"},
		{"standard tier", list, "anthropic", "claude-haiku-4-5", Usage{InputTokens: 1, Tier: "standard"}, 1_000_000, "2026-11-29"},
		{"auto", list, "openai", "gpt-5.4", Usage{InputTokens: 272_001, Tier: "auto"}, 272_001 * 5_000_000, "2026-11-29"},
		{"batch", list, "anthropic", "claude-haiku-4-5-20251001", Usage{InputTokens: 3, OutputTokens: 5, Tier: "batch"}, 3*500_000 + 5*2_500_000, "2026-11-29/batch"},
		{"batch that is not half", list, "xai", "grok-4.20", Usage{InputTokens: 3, OutputTokens: 5, Tier: "batch"}, 3*1_000_000 + 5*2_000_000, "2026-11-29/batch"},
		{"batch and cache", own, "own", "batch", Usage{InputTokens: 1, CachedInputTokens: 1, CacheWriteTokens: 1, OutputTokens: 1, Tier: "batch"}, 4_000_000 + 1_000_000 + 10_000_000 + 7_000_000, "file:2026-12-01/batch"},
		{"batch and cache without rates", own, "own", "batch2", Usage{InputTokens: 1, CachedInputTokens: 1, CacheWriteTokens: 1, OutputTokens: 1, Tier: "batch"}, 3*4_000_000 + 7_000_000, "file:2026-12-01/batch"},
		{"batch at the border", own, "own", "batch", Usage{InputTokens: 100, Tier: "batch"}, 100 * 4_000_000, "file:2026-12-01/batch"},
		{"long batch", own, "own", "batch", Usage{InputTokens: 101, Tier: "batch"}, unknown, ""},
		{"no batch rate", list, "openai", "gpt-5.1-codex", Usage{InputTokens: 1, Tier: "batch"}, unknown, ""},
		{"priority", list, "openai", "gpt-5-mini", Usage{InputTokens: 1, Tier: "priority"}, unknown, ""},
		{"flex", list, "openai", "gpt-5-mini", Usage{InputTokens: 1, Tier: "flex"}, unknown, ""},
		{"a cache for an hour", list, "anthropic", "claude-haiku-4-5", Usage{CacheWriteTokens: 1, Tier: "standard" + LongCache}, unknown, ""},
		{"and in a batch", list, "anthropic", "claude-haiku-4-5", Usage{CacheWriteTokens: 1, Tier: "batch" + LongCache}, unknown, ""},
		{"another case of tier", list, "openai", "gpt-5-mini", Usage{InputTokens: 1, Tier: "Default"}, unknown, ""},

		{"overridden", own, "openai", "gpt-5-mini", Usage{InputTokens: 1}, 1_000_000, "file:2026-12-01"},
		{"its snapshot, which the list has", own, "openai", "gpt-5-mini-2025-08-07", Usage{InputTokens: 1}, 1_000_000, "file:2026-12-01"},
		{"not overridden", own, "openai", "gpt-5.4", Usage{InputTokens: 1}, 2_500_000, "2026-11-29"},
		{"the operator says free", own, "own", "free", Usage{InputTokens: 1 << 40, OutputTokens: 1}, 0, "file:2026-12-01"},
		{"the least rate", own, "own", "tiny", Usage{InputTokens: 1, OutputTokens: 1}, 2, "file:2026-12-01"},

		{"all an amount can hold", own, "own", "tiny", Usage{InputTokens: math.MaxInt64 - 1, OutputTokens: 1}, math.MaxInt64, "file:2026-12-01"},
		{"one more", own, "own", "tiny", Usage{InputTokens: math.MaxInt64, OutputTokens: 1}, unknown, ""},
		{"a product too large", own, "own", "dear", Usage{InputTokens: math.MaxInt64}, unknown, ""},
		{"a product that wraps to little", own, "own", "tiers", Usage{InputTokens: 1 << 62}, unknown, ""},
		{"sums of all kinds", own, "own", "tiny", Usage{InputTokens: math.MaxInt64, CachedInputTokens: math.MaxInt64, CacheWriteTokens: math.MaxInt64, OutputTokens: 2}, unknown, ""},
		{"a sum that wraps to little", own, "own", "two", Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64}, unknown, ""},
		{"negative and free", own, "own", "free", Usage{InputTokens: -1}, unknown, ""},
		{"negative", own, "own", "tiny", Usage{InputTokens: -1, OutputTokens: 5}, unknown, ""},
	} {
		pico, version, ok := c.prices.Cost(c.provider, c.model, c.usage)
		if c.want == unknown {
			if ok || pico != 0 || version != "" {
				t.Errorf("%s: %d %q, want unknown", c.name, pico, version)
			}
		} else if !ok || pico != c.want || version != c.version {
			t.Errorf("%s: %d %q %v, want %d %q", c.name, pico, version, ok, c.want, c.version)
		}
	}
}

func TestMost(t *testing.T) {
	own := override(t, `own,tiers,1,0.5,2,4,1000,10,5,20,3,2026-12-01,,
own,batch,8,9,,16,,,,,,2026-12-01,1,1
`)
	for _, c := range []struct {
		provider, model string
		input, output   int64
		want            int64 // -1: unknown
	}{
		{"own", "tiers", 1000, 10, 1000*2_000_000 + 10*4_000_000},
		{"own", "tiers", 1001, 10, 1001*20_000_000 + 10*4_000_000},
		{"own", "batch", 1, 1, 9_000_000 + 16_000_000}, // a cache that costs more than no cache
		{"anthropic", "claude-haiku-4-5-20251001", 4, 2, 4*1_250_000 + 2*5_000_000},
		{"own", "tiers", 0, 0, 0},
		{"own", "tiers", -1, 0, -1}, {"own", "tiers", 0, -1, -1}, {"own", "none", 1, 1, -1}, {"own", "tiers", math.MaxInt64, 1, -1},
	} {
		got, ok := own.Most(c.provider, c.model, c.input, c.output)
		if ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%s %d+%d: %d %v, want %d", c.model, c.input, c.output, got, ok, c.want)
		}
	}
}

// Report 20: a budget was overdrawn by calls that had no estimate, and so no reservation. No call costs more than the most that
// was reserved for it.
func TestReport20_WhatACallCanCostIsKnownBeforeIt(t *testing.T) {
	list := ListPrices()
	for name := range list.tables[0] {
		for _, input := range []int64{0, 1, 1000, 199_999, 200_001, 272_000, 272_001, 1_000_000} {
			most, ok := list.Most(name.provider, name.model, input, 500)
			if !ok {
				t.Fatalf("%v has no most", name)
			}
			for _, u := range []Usage{{InputTokens: input}, {CachedInputTokens: input}, {CacheWriteTokens: input}, {InputTokens: input / 2}} {
				for _, u.Tier = range []string{"", "batch"} {
					u.OutputTokens = 500
					if cost, _, ok := list.Cost(name.provider, name.model, u); ok && cost > most {
						t.Errorf("%v: %+v costs %d, at most %d", name, u, cost, most)
					}
				}
			}
		}
	}
}

func TestInput(t *testing.T) {
	for want, u := range map[int64]Usage{
		6:                 {InputTokens: 1, CachedInputTokens: 2, CacheWriteTokens: 3, OutputTokens: 4, ReasoningTokens: 4},
		math.MaxInt64:     {InputTokens: math.MaxInt64, CachedInputTokens: 1},
		math.MaxInt64 - 1: {InputTokens: math.MaxInt64 - 2, CacheWriteTokens: 1},
	} {
		if got := u.Input(); got != want {
			t.Errorf("%+v: %d, want %d", u, got, want)
		}
	}
}

func TestOverrideIsChecked(t *testing.T) {
	const header = "provider,model,input,output,cached_input,tier_above,tier_input,tier_output,date\n"
	for rows, want := range map[string]string{
		"":                                     "no header",
		"provider,model,input,output\n":        "column date is missing",
		"provider,model,input,output,date,x\n": `column "x" is unknown`,
		"provider,model,input,output,date,date\n":                                            `column "date" is unknown or there twice`,
		header + "a,m,1,2,,,,,2026-12-01\na,m2,1,2\n":                                        "line 3",
		header + "\n# why\na,m,1,,,,,,2026-12-01\n":                                          "line 4, column output",
		header + "a,m,,2,,,,,2026-12-01\n":                                                   "line 2, column input",
		header + "a,m,1e3,2,,,,,2026-12-01\n":                                                "line 2, column input",
		header + "a,m,-1,2,,,,,2026-12-01\n":                                                 "line 2, column input",
		header + "a,m,1,\"1,5\",,,,,2026-12-01\n":                                            "line 2, column output",
		header + "a,m,1,1.0000001,,,,,2026-12-01\n":                                          "line 2, column output",
		header + "a,m,1,1.,,,,,2026-12-01\n":                                                 "line 2, column output",
		header + "a,m,1,.5,,,,,2026-12-01\n":                                                 "line 2, column output",
		header + "a,m,1,9999999999,,,,,2026-12-01\n":                                         "line 2, column output",
		header + "a,m,1,2, 1,,,,2026-12-01\n":                                                "line 2, column cached_input",
		header + ",m,1,2,,,,,2026-12-01\n":                                                   "line 2, column provider",
		header + "a,m ,1,2,,,,,2026-12-01\n":                                                 "line 2, column model",
		header + "a,m,1,2,,,,,\n":                                                            "line 2, column date",
		header + "a,m,1,2,,,,,1.12.2026\n":                                                   "line 2, column date",
		header + "a,m,1,2,,200k,2,4,2026-12-01\n":                                            "line 2, column tier_above",
		header + "a,m,1,2,,0,2,4,2026-12-01\n":                                               "line 2, column tier_above",
		header + "a,m,1,2,,200000,2,,2026-12-01\n":                                           "line 2, column tier_output",
		header + "a,m,1,2,,,2,4,2026-12-01\n":                                                "line 2, column tier_input",
		"provider,model,input,output,date,batch_input,batch_output\na,m,1,2,2026-12-01,1,\n": "line 2, column batch_output",
		"provider,model,input,output,date,batch_input,batch_output\na,m,1,2,2026-12-01,,1\n": "line 2, column batch_input",
		"provider,model,input,output,date,batch_input\na,m,1,2,2026-12-01,1\n":               "line 2, column batch_output",
		header + strings.Repeat("a,m,1,2,,,,,2026-12-01\n", 2):                               "line 3, column model",
	} {
		if _, err := ListPrices().Override(strings.NewReader(rows)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", rows, err, want)
		}
	}
}

// FuzzRate holds every rate that is accepted against exact rational numbers.
func FuzzRate(f *testing.F) {
	for _, s := range []string{"3", "0.1", "0.000001", "999999999.999999", "007.50", "1e3", "1_0", "+1", "١"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		pico, ok := parseRate(s)
		if !ok {
			return
		}
		want, good := new(big.Rat).SetString(s)
		if !good || new(big.Rat).Mul(want, big.NewRat(1_000_000, 1)).Cmp(big.NewRat(pico, 1)) != 0 {
			t.Errorf("%q: %d", s, pico)
		}
	})
}
