package cli

import (
	"net/url"
	"regexp"

	"github.com/spf13/pflag"
)

const mask = "***"

// shown is a flag's value as it may be printed.
func shown(f *pflag.Flag) string {
	if f.Annotations[secretMark] == nil || f.Value.String() == "" {
		return f.Value.String()
	}
	return Masked(f.Value.String())
}

var keywordPassword = regexp.MustCompile(`(?i)\b(password|sslpassword)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)`)

// Masked is a connection URL, or a keyword string, without its passwords. What cannot be read is masked whole.
func Masked(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return mask
	}
	if u.Scheme == "" || u.Host == "" && u.User == nil {
		return keywordPassword.ReplaceAllString(raw, "$1="+mask)
	}
	query := keywordPassword.ReplaceAllString(u.RawQuery, "$1="+mask)
	u.RawQuery = ""
	if _, has := u.User.Password(); has {
		u.User = url.User(u.User.Username())
		// Written by hand: url.UserPassword would escape the mask.
		text := u.Scheme + "://" + u.User.String() + ":" + mask + "@" + u.Host + u.EscapedPath()
		if query != "" {
			text += "?" + query
		}
		return text
	}
	u.RawQuery = query
	return u.String()
}
