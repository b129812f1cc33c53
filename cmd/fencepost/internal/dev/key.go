package dev

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// keyFile holds the API key's secret, for the next start to print the same one.
const keyFile = "api-key"

// APIKey is the secret that was kept, "" at first.
func (d *Dir) APIKey() (string, error) {
	text, err := os.ReadFile(d.Path(keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// KeepAPIKey stores the secret, readable by its owner only.
func (d *Dir) KeepAPIKey(secret string) error {
	return d.write(keyFile, []byte(secret+"\n"), 0o600)
}
