package node

import (
	"errors"
	"fmt"
)

// A start fails with one of these kinds; a *Problem also says what to do.
var (
	// ErrUnreachable: Postgres or Kafka did not answer in the time that was given.
	ErrUnreachable = errors.New("not reachable")
	// ErrNotReady: something has to be done first, such as a migration.
	ErrNotReady = errors.New("not prepared")
	// ErrListen: an address cannot be listened on.
	ErrListen = errors.New("cannot listen")
)

// Problem is a failure with its remedy.
type Problem struct {
	Kind error
	Text string
	Hint string
	Err  error // may be nil
}

// Error is the text and the cause.
func (p *Problem) Error() string {
	if p.Err == nil {
		return p.Text
	}
	return fmt.Sprintf("%s: %v", p.Text, p.Err)
}

// Unwrap returns the kind and the cause.
func (p *Problem) Unwrap() []error { return []error{p.Kind, p.Err} }
