package dashboard

import (
	"math"
	"strconv"
	"strings"
	"time"
)

const unknownText = "?"

// number groups digits, with a space that does not break.
func number(n int64) string {
	if n == Unknown {
		return unknownText
	}
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "−", s[1:]
	}
	var b strings.Builder
	for i, digit := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

// seconds is a time in two units at most.
func seconds(s float64) string {
	if s < 0 || math.IsNaN(s) || math.IsInf(s, 0) {
		return unknownText
	}
	switch {
	case s < 0.0005:
		return "0 s"
	case s < 1:
		return strconv.FormatFloat(math.Ceil(s*1000), 'f', 0, 64) + " ms"
	case s < 10:
		return strconv.FormatFloat(math.Floor(s*10)/10, 'f', -1, 64) + " s"
	}
	n := int64(s)
	switch {
	case n < 60:
		return strconv.FormatInt(n, 10) + " s"
	case n < 3600:
		return two(n/60, "min", n%60, "s")
	case n < 48*3600:
		return two(n/3600, "h", n/60%60, "min")
	}
	return two(n/86400, "d", n/3600%24, "h")
}

func two(a int64, unit string, b int64, second string) string {
	text := strconv.FormatInt(a, 10) + " " + unit
	if b > 0 {
		text += " " + strconv.FormatInt(b, 10) + " " + second
	}
	return text
}

func age(d time.Duration) string { return seconds(d.Seconds()) }

// dollars are picodollars to a cent, less than a dollar to a ten-thousandth, and what is less and not nothing as such.
func dollars(pico int64) string {
	const unit = 1e12
	v := float64(pico) / unit
	if pico > 0 && v < 0.0001 {
		return "< $0.0001"
	}
	digits := 4
	if math.Abs(v) >= 1 || pico == 0 {
		digits = 2
	}
	return strings.Replace("$"+strconv.FormatFloat(v, 'f', digits, 64), "$-", "−$", 1)
}

func maybeDollars(pico *int64) string {
	if pico == nil {
		return "unknown"
	}
	return dollars(*pico)
}

func maybeNumber(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return number(*n)
}

func percent(part float64) string {
	return strconv.FormatFloat(math.Floor(part*100), 'f', 0, 64) + " %"
}

func instant(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// short is the beginning of a text that may be long.
func short(text string, runes int) string {
	n := 0
	for i := range text {
		if n++; n > runes {
			return text[:i] + "…"
		}
	}
	return text
}
