package tasks

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Amounts are whole picodollars, so that they add up exactly: a token costs millions of them.
const (
	perDollar     = 1_000_000_000_000
	dollarsDigits = 12 // after the point
)

// Dollars writes picodollars as an exact decimal, without trailing zeros.
func Dollars(pico int64) string {
	sign, n := "", uint64(pico)
	if pico < 0 {
		sign, n = "-", -n
	}
	s := fmt.Sprintf("%s%d.%0*d", sign, n/perDollar, dollarsDigits, n%perDollar)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// ParseDollars reads a decimal that is not negative as picodollars, exactly or not at all.
func ParseDollars(s string) (int64, error) {
	whole, fraction, point := strings.Cut(s, ".")
	if whole == "" || point && fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not an amount in dollars, like 10 or 0.25", s)
	}
	if fraction = strings.TrimRight(fraction, "0"); len(fraction) > dollarsDigits {
		return 0, fmt.Errorf("%q has more than %d digits after the point", s, dollarsDigits)
	}
	fraction += strings.Repeat("0", dollarsDigits-len(fraction))
	pico, err := strconv.ParseInt(whole+fraction, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%q is more than %s", s, Dollars(math.MaxInt64))
	}
	return pico, err
}
