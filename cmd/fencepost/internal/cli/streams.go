package cli

import (
	"io"
	"os"
)

// Streams is where a verb reads and writes, and what it may assume of the far ends. Tests use buffers.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	InTTY  bool // a person can answer on In
	OutTTY bool // a person reads Out
	ErrTTY bool // a person reads Err
	Color  bool // colours are welcome on Err

	// LookupEnv reads the environment.
	LookupEnv func(string) (string, bool)
}

// System returns the streams of the process.
func System() *Streams {
	s := &Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY: terminal(os.Stdin), OutTTY: terminal(os.Stdout), ErrTTY: terminal(os.Stderr),
		LookupEnv: os.LookupEnv,
	}
	s.Color = color(s.ErrTTY, s.LookupEnv)
	return s
}

// color follows no-color.org and bixense.com/clicolors: NO_COLOR forbids, CLICOLOR_FORCE demands, else a terminal that is
// not dumb and CLICOLOR not 0.
func color(tty bool, env func(string) (string, bool)) bool {
	if v, _ := env("NO_COLOR"); v != "" {
		return false
	}
	if v, ok := env("CLICOLOR_FORCE"); ok && v != "" && v != "0" {
		return true
	}
	if v, _ := env("CLICOLOR"); v == "0" {
		return false
	}
	v, _ := env("TERM")
	return tty && v != "dumb"
}

// terminal reports whether f is a character device that is not the null device.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
