package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fencepost/fencepost/tasks"
)

const (
	maxCanonical = 8 << 20 // bytes
	maxDepth     = 64
	maxNumber    = 512         // characters of a number
	maxExponent  = 999_999_999 // more digits than this would not fit into an int
)

var errCanonical = errors.New("JSON has no canonical form")

// canonical writes a JSON value in the one form that all its spellings share: members by name, numbers by value (1, 1.0
// and 1e0 are equal, -0 is 0), texts in NFC. Two values that differ never share a form; numbers are compared by their
// digits, not as floating point, which would make different ones equal. What has no sure form (a name twice, half a
// surrogate pair) or no end (depth, size) is refused.
//
// The form is for fingerprints. It is not for a model: 100 is written 1e2.
func canonical(value json.RawMessage) (json.RawMessage, error) {
	switch {
	case len(value) > maxCanonical:
		return nil, fmt.Errorf("%w: more than %d bytes", errCanonical, maxCanonical)
	case !utf8.Valid(value):
		return nil, fmt.Errorf("%w: not UTF-8", errCanonical)
	case loneSurrogate(value):
		return nil, fmt.Errorf("%w: half a surrogate pair", errCanonical)
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	w := canonicalWriter{in: d, out: make([]byte, 0, len(value))}
	if err := w.value(0); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: something after the value", errCanonical)
	}
	return w.out, nil
}

type canonicalWriter struct {
	in  *json.Decoder
	out []byte
}

// value copies one value.
func (w *canonicalWriter) value(depth int) error {
	token, err := w.token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if depth == maxDepth {
			return fmt.Errorf("%w: deeper than %d", errCanonical, maxDepth)
		}
		if t == '[' {
			return w.array(depth + 1)
		}
		return w.object(depth + 1)
	case json.Number:
		number, err := canonicalNumber(string(t))
		w.out = append(w.out, number...)
		return err
	case string:
		w.out = appendCanonicalText(w.out, tasks.Normal(t))
	case bool:
		w.out = strconv.AppendBool(w.out, t)
	case nil:
		w.out = append(w.out, "null"...)
	}
	return nil
}

func (w *canonicalWriter) array(depth int) error {
	w.out = append(w.out, '[')
	for n := 0; w.in.More(); n++ {
		if n > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.value(depth); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	_, err := w.token()
	return err
}

// object writes each member where it is read, and then the members by name.
func (w *canonicalWriter) object(depth int) error {
	type span struct{ from, to int }
	start := len(w.out)
	members := make(map[string]span)
	for w.in.More() {
		token, err := w.token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return fmt.Errorf("%w: a member without a name", errCanonical)
		}
		name = tasks.Normal(name)
		if _, twice := members[name]; twice {
			return fmt.Errorf("%w: %q twice in an object", errCanonical, tasks.Cut(name, 64))
		}
		from := len(w.out)
		w.out = append(appendCanonicalText(w.out, name), ':')
		if err := w.value(depth); err != nil {
			return err
		}
		members[name] = span{from - start, len(w.out) - start}
	}
	if _, err := w.token(); err != nil {
		return err
	}
	read := slices.Clone(w.out[start:])
	w.out = append(w.out[:start], '{')
	for n, name := range slices.Sorted(maps.Keys(members)) {
		if n > 0 {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, read[members[name].from:members[name].to]...)
	}
	w.out = append(w.out, '}')
	return nil
}

func (w *canonicalWriter) token() (json.Token, error) {
	token, err := w.in.Token()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCanonical, err)
	}
	return token, nil
}

// canonicalNumber writes a JSON number as an integer without trailing zeros and an exponent.
func canonicalNumber(text string) (string, error) {
	if len(text) > maxNumber {
		return "", fmt.Errorf("%w: a number of more than %d characters", errCanonical, maxNumber)
	}
	rest, negative := strings.CutPrefix(text, "-")
	mantissa, power := rest, ""
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa, power = rest[:i], rest[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0", nil
	}
	exponent := 0
	if power != "" {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil || exponent > maxExponent || exponent < -maxExponent {
			return "", fmt.Errorf("%w: an exponent of more than %d", errCanonical, maxExponent)
		}
	}
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short) - len(fraction)
	out := short
	if negative {
		out = "-" + short
	}
	if exponent != 0 {
		out += "e" + strconv.Itoa(exponent)
	}
	return out, nil
}

// appendCanonicalText writes a JSON string with as few escapes as there can be.
func appendCanonicalText(b []byte, text string) []byte {
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
