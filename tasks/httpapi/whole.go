package httpapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// whole is a whole number in JSON, in any of its forms: what a proxy or another library makes of a body (7.0, 7e0) is the
// same request. encoding/json takes only 7 for an int.
type whole int

func (n *whole) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	wrong := &json.UnmarshalTypeError{Value: kindOf(b), Type: reflect.TypeFor[whole]()}
	if wrong.Value != "number" {
		return wrong
	}
	wrong.Value += " " + string(b[:min(len(b), 64)])
	text, err := canonicalNumber(string(b))
	if err != nil {
		return wrong
	}
	digits, zeros, _ := strings.Cut(text, "e")
	exponent, _ := strconv.Atoi(zeros)
	if exponent < 0 || exponent > 18 {
		return wrong
	}
	value, err := strconv.ParseInt(digits+strings.Repeat("0", exponent), 10, 64)
	if err != nil {
		return wrong
	}
	*n = whole(value)
	return nil
}

// kindOf names what a JSON value is, as encoding/json does in its errors.
func kindOf(b []byte) string {
	switch b[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "bool"
	default:
		return "number"
	}
}
