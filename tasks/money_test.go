package tasks

import (
	"math"
	"strings"
	"testing"
)

func TestDollars(t *testing.T) {
	for text, pico := range map[string]int64{
		"0": 0, "0.000000000001": 1, "0.000123": 123_000_000, "1": 1_000_000_000_000, "12.5": 12_500_000_000_000,
		"9223372.036854775807": math.MaxInt64,
	} {
		if got := Dollars(pico); got != text {
			t.Errorf("%d: %s, want %s", pico, got, text)
		}
		for _, written := range []string{text, "000" + text} {
			if got, err := ParseDollars(written); err != nil || got != pico {
				t.Errorf("%s: %d, %v; want %d", written, got, err, pico)
			}
		}
	}
	for pico, want := range map[int64]string{-1: "-0.000000000001", math.MinInt64: "-9223372.036854775808"} {
		if got := Dollars(pico); got != want {
			t.Errorf("%d: %s, want %s", pico, got, want)
		}
	}
	if got, err := ParseDollars("10.00"); err != nil || got != 10*perDollar {
		t.Errorf("10.00: %d, %v", got, err)
	}
	if got, err := ParseDollars("1." + strings.Repeat("0", 1000)); err != nil || got != perDollar {
		t.Errorf("1.000...: %d, %v", got, err)
	}
	for _, wrong := range []string{"", ".", "1.", ".5", "-1", "+1", "1e3", "$1", "1,5", "1.2.3", " 1", "0x1", "0.0000000000001",
		"9223372.036854775808", "99999999999999999999", "NaN", "1_000", "١"} {
		if got, err := ParseDollars(wrong); err == nil {
			t.Errorf("%q is read as %d", wrong, got)
		}
	}
}

func FuzzParseDollars(f *testing.F) {
	f.Add("10.00")
	f.Add("9223372.036854775807")
	f.Fuzz(func(t *testing.T, text string) {
		pico, err := ParseDollars(text)
		if err != nil {
			return
		}
		if again, err := ParseDollars(Dollars(pico)); err != nil || again != pico || pico < 0 {
			t.Errorf("%q is %d, which is written as %s and read as %d, %v", text, pico, Dollars(pico), again, err)
		}
	})
}
