package llm

// Secret is a text that no formatting shows.
type Secret string

// String is the same for every secret.
func (Secret) String() string { return "(redacted)" }

// GoString is String.
func (Secret) GoString() string { return "(redacted)" }

// IsTraceParent checks the form of the W3C header; anything else must not be passed on, since it could carry another.
func IsTraceParent(s string) bool {
	if len(s) != 55 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if dash := i == 2 || i == 35 || i == 52; dash != (c == '-') {
			return false
		}
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
