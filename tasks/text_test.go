package tasks

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"":                    "",
		"plain \u2713 \ufffd": "plain \u2713 \ufffd",
		"a\x00b":              "ab",
		"\x00":                "",
		"a\x80b":              "a\uFFFDb",
		"\xe2\x82":            "\uFFFD", // a character that was cut
		"\xed\xa0\x80":        "\uFFFD", // a surrogate half, which Postgres refuses too
		"\xc0\x80":            "\uFFFD", // an overlong NUL
		"\xe2\x00\x82":        "\uFFFD\uFFFD",
		"line\r\n\ttab\x01":   "line\r\n\ttab\x01",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"", 0, ""},
		{"\u2713\u2713", 6, "\u2713\u2713"}, {"\u2713\u2713", 5, "\u2713"}, {"\u2713\u2713", 3, "\u2713"}, {"\u2713\u2713", 2, ""},
		{"a\x00bc", 2, "ab"}, {"a\x80bc", 3, "a"},
	} {
		if got := Cut(c.in, c.n); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestCut_IsStorableAndShortEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "in"))
		n := rapid.IntRange(0, 40).Draw(t, "n")
		got := Cut(in, n)
		if len(got) > n || !utf8.ValidString(got) || strings.IndexByte(got, 0) >= 0 || !strings.HasPrefix(Clean(in), got) || Clean(got) != got {
			t.Fatalf("Cut(%q, %d) = %q", in, n, got)
		}
		if rest := Clean(in)[len(got):]; rest != "" {
			if _, size := utf8.DecodeRuneInString(rest); len(got)+size <= n {
				t.Fatalf("Cut(%q, %d) = %q, though the next character fits", in, n, got)
			}
		}
	})
}
