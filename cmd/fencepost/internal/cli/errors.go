package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Exit codes.
const (
	OK        = 0
	Failed    = 1
	Misuse    = 2 // usage error, or cancelled by the user
	Refused   = 3 // a precondition does not hold; nothing was changed
	Partly    = 4 // some of it was done
	Threshold = 5 // the answer is beyond a limit that was asked about
)

// Error is an error that knows its exit code and what to do next.
type Error struct {
	Code int
	Hint string // the exact next step; may be empty
	Err  error
}

// Error is the message without the hint.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Usage is a mistake on the command line or in the configuration. The message names the wrong word.
func Usage(hint, format string, args ...any) error {
	return &Error{Code: Misuse, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// Refuse is a precondition that does not hold.
func Refuse(hint, format string, args ...any) error {
	return &Error{Code: Refused, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// Fail is any other failure with a hint.
func Fail(hint, format string, args ...any) error {
	return &Error{Code: Failed, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// ExitCode is the process's exit code for an error.
func ExitCode(err error) int {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return Misuse
	}
	return Failed
}

// Report writes an error for a person: "Error: ..." and, where there is one, "Hint: ...".
func Report(w io.Writer, err error) {
	if err == nil {
		return
	}
	_, _ = fmt.Fprintf(w, "Error: %s\n", strings.TrimSpace(err.Error()))
	var e *Error
	if errors.As(err, &e) && e.Hint != "" {
		_, _ = fmt.Fprintf(w, "Hint: %s\n", e.Hint)
	}
}
