package migrations

import (
	"embed"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

//go:embed [0-9]*.sql
var files embed.FS

// Version is one migration and whether the database has it.
type Version struct {
	Number    int64
	Name      string    // file name; empty when this program does not know the version
	AppliedAt time.Time // zero: pending
}

// known lists the embedded migrations, all pending.
func known() ([]Version, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	var list []Version
	for _, name := range names {
		digits, _, _ := strings.Cut(name, "_")
		number, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return nil, errors.New("migration file without a number: " + name)
		}
		list = append(list, Version{Number: number, Name: name})
	}
	return list, nil
}
