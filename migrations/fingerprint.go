package migrations

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
)

// Fingerprint is equal for two programs that have the same migrations, to the byte. Tests name a prepared database by it.
func Fingerprint() (string, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		h.Write([]byte(name))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
