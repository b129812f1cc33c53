package tasks

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// joiner is what the normalizer puts into a run of more than 30 combining marks.
const joiner = "\u034f"

// Normal is s in Unicode's normal form C, so that texts that look alike because they are the same compare as equal,
// whichever way a keyboard or a file system composed them. A text in which the normalizer would have to insert something
// stays as it is: texts that differ never become equal.
func Normal(s string) string {
	if norm.NFC.IsNormalString(s) {
		return s
	}
	n := norm.NFC.String(s)
	if strings.Count(n, joiner) != strings.Count(s, joiner) {
		return s
	}
	return n
}
