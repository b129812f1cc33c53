package tasks

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

func TestNormal(t *testing.T) {
	for s, want := range map[string]string{
		"":                                 "",
		"plain":                            "plain",
		"é":                                "é",
		"e\u0301":                          "é",
		"\u212b":                           "Å",
		"\u1100\u1161\u11a8":               "각",
		"q\u0307\u0323":                    "q\u0323\u0307",
		"ﬁ²":                               "ﬁ²",
		"\xff\x00":                         "\xff\x00",
		strings.Repeat("\u0301", 31):       strings.Repeat("\u0301", 31),
		"e" + strings.Repeat("\u0301", 31): "e" + strings.Repeat("\u0301", 31),
		"e\u0301\u034f":                    "é\u034f",
	} {
		if got := Normal(s); got != want {
			t.Errorf("%+q: %+q, want %+q", s, got, want)
		}
	}
}

// The normal form is its own, and says the same as what it was made of.
func FuzzNormal(f *testing.F) {
	for _, s := range []string{"e\u0301", "\u1100\u1161\u11a8", strings.Repeat("\u0301\u0323", 20), "\u034f", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n := Normal(s)
		if again := Normal(n); again != n {
			t.Fatalf("%+q: %+q, again %+q", s, n, again)
		}
		if norm.NFD.String(n) != norm.NFD.String(s) {
			t.Fatalf("%+q: %+q is another text", s, n)
		}
		if norm.NFC.IsNormalString(s) && n != s {
			t.Fatalf("%+q was normal and became %+q", s, n)
		}
	})
}
