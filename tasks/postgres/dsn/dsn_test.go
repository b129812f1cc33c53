package dsn

import (
	"errors"
	"strings"
	"testing"
)

func TestNoPasswordInErrors(t *testing.T) {
	for _, url := range []string{
		"", "postgres://u:hun/ter2@h/d", "postgres://u:hunter2@h:port/d", "postgres://u:hunter2@h/d?sslmode=often", "://u:hunter2@h",
		"postgres://u:hunter2%zz@h/d", "host=h password=hunter2 port=x", "mysql://u:hunter2@h/d", "postgres://u@h/d?password=hunter2&connect_timeout=x",
		"hunter2", "postgres://u:hunter2@h:99999999/d", "postgres://u:hunter2@[h/d",
	} {
		_, err := Parse(url)
		if err == nil {
			continue // pgx takes it, and the driver would say what is wrong when it connects
		}
		if !errors.Is(err, ErrURL) {
			t.Errorf("%q: %v, want %v", url, err, ErrURL)
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
