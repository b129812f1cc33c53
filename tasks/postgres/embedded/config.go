package embedded

import (
	"errors"
	"log/slog"
)

// Config says where and how the server runs.
type Config struct {
	// DataDir holds the cluster, its password (0600) and its log. It is made when it does not exist.
	DataDir string
	// Port on 127.0.0.1; 0 takes any free one.
	Port int
	// AnyPort makes Port a wish: another free one is taken when it is not free.
	AnyPort bool
	// NoFsync trades the data's safety against a crash of the machine for speed. For tests.
	NoFsync bool
	// Settings are server settings by name, above those of this package.
	Settings map[string]string
	// DownloadURL is the Maven repository the binaries come from when the machine has none; empty is Maven Central.
	DownloadURL string
	// Logger gets what a person wants to know; nil discards it. Postgres's own log is in DataDir.
	Logger *slog.Logger
}

// MinMajor is the oldest major version of Postgres that is used.
const MinMajor = 14

var (
	// ErrVersion: the data directory belongs to a major version of Postgres that is not at hand.
	ErrVersion = errors.New("data directory belongs to another Postgres version")
	// ErrBinaries: there is no Postgres on the machine and none could be downloaded.
	ErrBinaries = errors.New("no Postgres binaries")
	// ErrDataDir: the data directory cannot be used.
	ErrDataDir = errors.New("data directory cannot be used")
	// ErrStart: Postgres did not come up.
	ErrStart = errors.New("postgres did not start")
)
