package httpapi

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

func canonicalOf(t testing.TB, text string) string {
	t.Helper()
	out, err := canonical(json.RawMessage(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(out)
}

func TestI6_SpellingsOfOneValueShareAForm(t *testing.T) {
	for want, spellings := range map[string][]string{
		`1`:                         {`1`, `1.0`, `1e0`, `10e-1`, `0.1E+1`, ` 1 `, `1.000e00000000000000000000000`},
		`0`:                         {`0`, `-0`, `0.0`, `-0e5`, `0e99999999999999999999`},
		`1e2`:                       {`100`, `1e2`, `1E+2`, `100.00`, `0.1e3`},
		`-15e-1`:                    {`-1.5`, `-15e-1`, `-1.50`},
		`9007199254740993`:          {`9007199254740993`, `9007199254740993.0`, `9.007199254740993e15`},
		`{"a":1,"b":[true,null,2]}`: {`{"b":[true,null,2],"a":1}`, "{\n\"a\" : 1.0 ,\"b\": [ true , null , 2e0 ] }"},
		`"é"`:                       {`"é"`, `"e` + "\u0301" + `"`, `"\u00e9"`, `"e\u0301"`},
		`"a/` + "\u2028😀" + `"`:     {`"a\/\u2028\ud83d\ude00"`, "\"a/\u2028😀\""},
		`{"é":1}`:                   {`{"e\u0301":1}`, `{"\u00E9":1}`},
		`"\u0000\u000a\"\\"`:        {`"\u0000\n\"\\"`, `"\u0000\u000A\u0022\u005c"`},
		`{}`:                        {`{}`, `{ }`},
		`[[],{}]`:                   {`[ [ ],{} ]`},
	} {
		for _, spelling := range spellings {
			if got := canonicalOf(t, spelling); got != want {
				t.Errorf("%s: %s, want %s", spelling, got, want)
			}
		}
	}
}

func TestI6_DifferentValuesHaveDifferentForms(t *testing.T) {
	values := []string{
		`9007199254740992`, `9007199254740993`, `9007199254740994`, `0.1`, `0.1000000000000000055511151231257827`, `1e308`, `1e309`, `1e400`,
		`1e-400`, `0`, `1`, `-1`, `10`, `"1"`, `true`, `false`, `null`, `"true"`, `""`, `[]`, `{}`, `[[]]`, `[1,2]`, `[2,1]`, `[12]`, `["1,2"]`, `{"1":2}`,
		`{"a":{"b":1}}`, `{"a":1,"b":1}`, `{"a,\"b":1}`, `"a"`, `"A"`, `" a"`, `"ﬁ"`, `"fi"`, `"²"`, `"2"`, `{"a":null}`, `{"a":[]}`, `{"a":""}`,
		`"` + strings.Repeat("\u0301", 31) + `"`, `"` + strings.Repeat("\u0301", 30) + "\u034f\u0301" + `"`, `"\ufffd"`, `"\u0000"`, `"\\u0000"`,
	}
	forms := make(map[string]string)
	for _, value := range values {
		form := canonicalOf(t, value)
		if with, dup := forms[form]; dup {
			t.Errorf("%s and %s are both %s", value, with, form)
		}
		forms[form] = value
	}
}

func TestWhatHasNoCanonicalForm(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, text := range []string{
		``, ` `, `x`, `{`, `[`, `[1`, `[1,]`, `[1 2]`, `[}`, `{]`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{"a":1,}`, `{1:2}`, `{"a":1 "b":2}`, `1 2`, `{}x`, `01`, `1.`, `.5`, `+1`, `1e`, `NaN`, `'a'`,
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `{"é":1,"e\u0301":2}`, `[{"a":{"b":1,"b":1}}]`,
		`"\ud83d"`, `"\ude00"`, `{"\ud83d":1}`, "\"\xff\"", `"a`, "\"a\nb\"", `1e1000000000`, `1e-1000000000`, `1e99999999999999999999`,
		strings.Repeat("1", maxNumber+1), deep(maxDepth + 1), deep(20_000),
		`"` + strings.Repeat("a", maxCanonical) + `"`,
	} {
		if out, err := canonical(json.RawMessage(text)); err == nil || out != nil {
			t.Errorf("%.80q has the form %.80q, %v", text, out, err)
		}
	}
	canonicalOf(t, deep(maxDepth))
	canonicalOf(t, strings.Repeat("1", maxNumber))
}

// value is a JSON value as it is meant: what canonical must tell apart and must not.
type value struct {
	kind    string // number, text, object, array, or a word
	number  *big.Rat
	text    string
	names   []string
	members []value
}

func (a value) equal(b value) bool {
	switch {
	case a.kind != b.kind || len(a.members) != len(b.members):
		return false
	case a.kind == "number":
		return a.number.Cmp(b.number) == 0
	case a.kind == "text":
		return norm.NFC.String(a.text) == norm.NFC.String(b.text)
	}
	for i := range a.members {
		j := i
		if a.kind == "object" {
			if j = slices.Index(b.names, a.names[i]); j < 0 {
				return false
			}
		}
		if !a.members[i].equal(b.members[j]) {
			return false
		}
	}
	return true
}

var texts = []string{"", "a", "b", "é", "e\u0301", "ё", "각", "각", "q\u0307\u0323", "q\u0323\u0307", "\u212b", "Å", "A\u030a", "\"", "\\", "\n", "\u2028", "😀", "fi", "ﬁ"}

func drawValue(t *rapid.T, depth int) value {
	kinds := []string{"number", "text", "true", "false", "null", "object", "array"}
	if depth == 0 {
		kinds = kinds[:5]
	}
	v := value{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	switch v.kind {
	case "number":
		v.number = new(big.Rat).SetFrac64(rapid.Int64Range(-1200, 1200).Draw(t, "n"), rapid.SampledFrom([]int64{1, 10, 100}).Draw(t, "of"))
		if rapid.Bool().Draw(t, "large") {
			v.number.Add(v.number, new(big.Rat).SetInt64(1<<53))
		}
	case "text":
		v.text = rapid.SampledFrom(texts).Draw(t, "text")
	case "object":
		v.names = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "é", "ё", ""}), 0, 3, rapid.ID).Draw(t, "names")
		for range v.names {
			v.members = append(v.members, drawValue(t, depth-1))
		}
	case "array":
		for range rapid.IntRange(0, 2).Draw(t, "length") {
			v.members = append(v.members, drawValue(t, depth-1))
		}
	}
	return v
}

// spell writes the value in one of its spellings.
func (v value) spell(t *rapid.T) string {
	space := rapid.SampledFrom([]string{"", " ", "\n\t"})
	text := func(s string) string {
		switch rapid.SampledFrom([]string{"", "NFC", "NFD"}).Draw(t, "form") {
		case "NFC":
			s = norm.NFC.String(s)
		case "NFD":
			s = norm.NFD.String(s)
		}
		b, _ := json.Marshal(s)
		if !rapid.Bool().Draw(t, "escaped") {
			return string(b)
		}
		var out strings.Builder
		for _, r := range string(b) {
			if r < 0x80 || r > 0xffff {
				out.WriteRune(r)
			} else {
				fmt.Fprintf(&out, `\u%04X`, r)
			}
		}
		return out.String()
	}
	switch v.kind {
	case "number":
		decimal := v.number.FloatString(2 + rapid.IntRange(0, 3).Draw(t, "zeros"))
		shift := rapid.IntRange(-3, 3).Draw(t, "shift")
		if rapid.Bool().Draw(t, "exponent") {
			ten := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil))
			if shift > 0 {
				ten.Inv(ten)
			}
			return fmt.Sprintf("%se%d", new(big.Rat).Mul(v.number, ten).FloatString(6), shift)
		}
		if v.number.IsInt() && rapid.Bool().Draw(t, "plain") {
			return v.number.Num().String()
		}
		return decimal
	case "text":
		return text(v.text)
	case "object":
		order := rapid.Permutation(v.names).Draw(t, "order")
		var parts []string
		for _, name := range order {
			parts = append(parts, space.Draw(t, "space")+text(name)+space.Draw(t, "space")+":"+v.members[slices.Index(v.names, name)].spell(t))
		}
		return "{" + strings.Join(parts, ",") + space.Draw(t, "space") + "}"
	case "array":
		var parts []string
		for _, m := range v.members {
			parts = append(parts, space.Draw(t, "space")+m.spell(t))
		}
		return "[" + strings.Join(parts, ",") + space.Draw(t, "space") + "]"
	default:
		return v.kind
	}
}

// Two values have one form exactly when they are equal, however they are spelt.
func TestI6_CanonicalIsEqualityOfValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawValue(t, 3)
		b := a
		if rapid.Bool().Draw(t, "other") {
			b = drawValue(t, 3)
		}
		one, two := a.spell(t), b.spell(t)
		x, err := canonical(json.RawMessage(one))
		if err != nil {
			t.Fatalf("%s: %v", one, err)
		}
		y, err := canonical(json.RawMessage(two))
		if err != nil {
			t.Fatalf("%s: %v", two, err)
		}
		if (string(x) == string(y)) != a.equal(b) {
			t.Fatalf("%s is %s\n%s is %s\nequal: %t", one, x, two, y, a.equal(b))
		}
	})
}

// What is accepted is JSON, means the same in its canonical form, and that form is its own.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":1.50,"a":[1e2,-0,"é"]}`, `"\ud83d\ude00"`, `[[[{}]]]`, `{"a":1,"a":2}`, `1e999999999`, "\"\u1100\u1161\u11a8\"", `[1,]`, `"\u0000"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		form, err := canonical(body)
		if err != nil {
			return
		}
		if !json.Valid(body) || !json.Valid(form) {
			t.Fatalf("%q: %q is not JSON", body, form)
		}
		if again, err := canonical(form); err != nil || string(again) != string(form) {
			t.Fatalf("%q: %q, again %q, %v", body, form, again, err)
		}
	})
}

func TestWholeNumbersInEveryForm(t *testing.T) {
	for text, want := range map[string]whole{`7`: 7, `7.0`: 7, `7e0`: 7, `70e-1`: 7, `0.7E1`: 7, `100`: 100, `1e2`: 100, `-0`: 0, `-3`: -3, `9007199254740993`: 9007199254740993} {
		var n whole
		if err := json.Unmarshal([]byte(text), &n); err != nil || n != want {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for _, text := range []string{`7.5`, `1e-1`, `1e19`, `9223372036854775808`, `"7"`, `true`, `[7]`, `{}`, `1e99999999999`} {
		m, p := parseMessage([]byte(`{"max_output_tokens":` + text + `}`))
		if p == nil || p.Field != "max_output_tokens" {
			t.Errorf("%s: %+v, %v", text, m, p)
		}
	}
	if m, p := parseMessage([]byte(`{"max_output_tokens":null}`)); p != nil || m.MaxOutputTokens != nil {
		t.Errorf("null: %+v, %v", m, p)
	}
}
