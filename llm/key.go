package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Keyed gives the headers of a new call, with the attempt's name as its key where that is how it is recovered. The name is
// noted first: a key that nobody remembers recovers nothing. Nothing has been sent when it fails.
func (e *Endpoint) Keyed(ctx context.Context, req Request) (http.Header, *Failure) {
	if e.Recovery.Kind != RecoverKey {
		return http.Header{}, nil
	}
	if f := CheckOp(req.Op); f != nil {
		return nil, f
	}
	if req.Noted != nil {
		if err := req.Noted(ctx, req.Op); err != nil {
			return nil, NotNoted(err)
		}
	}
	return e.key(req.Op), nil
}

func (e *Endpoint) key(key string) http.Header {
	return http.Header{http.CanonicalHeaderKey(e.Recovery.Header): {key}}
}

// RecoverKeyed asks for the answer of a lost call by sending the same request under the same key, with call.
func (e *Endpoint) RecoverKeyed(lost Lost, call func(http.Header) (Answer, error)) (Answer, error) {
	switch forgotten := e.Recovery.Forgotten(lost); {
	case lost.Ref == "" || CheckOp(lost.Ref) != nil:
		return Answer{}, NoTrace("no key of the earlier call was noted: nothing was sent", Report{})
	case !lost.Same:
		return Answer{}, NoTrace("the request is not known to be the one that was sent under the key: nothing was sent", Report{})
	case forgotten != nil:
		return Answer{}, forgotten
	}
	answer, err := call(e.key(lost.Ref))
	var f *Failure
	if !errors.As(err, &f) {
		return answer, err
	}
	switch {
	case f.Status == e.Recovery.InProgress:
		f.Class, f.Err = Ambiguous, ErrInProgress
		f.Message = "the earlier call is still in progress: " + f.Message
		f.RetryAfter = max(f.RetryAfter, time.Second)
	case f.Status == e.Recovery.Conflict:
		f.Class, f.Err = Ambiguous, ErrNoTrace
		f.Message = "the key belongs to another request: " + f.Message
	case f.Status == http.StatusBadRequest, f.Status == http.StatusRequestEntityTooLarge, f.Status == http.StatusUnprocessableEntity:
		// The same words were refused then.
	case f.Status >= 300 && f.Class != Ambiguous:
		// It refuses the question, which says nothing of the call.
		f.Class, f.Message = NotSent, fmt.Sprintf("the question was refused as %s: %s", f.Class, f.Message)
	}
	return Answer{}, err
}

// CheckOp is the failure of a call whose attempt has no name that a header and a provider's metadata can hold.
func CheckOp(op string) *Failure {
	if op != "" && len(op) <= 255 && strings.IndexFunc(op, func(r rune) bool { return r <= ' ' || r > '~' }) < 0 {
		return nil
	}
	return &Failure{Class: Permanent, Message: "the attempt has no name that it could be recovered by: nothing was sent"}
}

// NotNoted is the failure of a call that must not begin, since what it could be looked up by was not made durable.
func NotNoted(err error) *Failure {
	return &Failure{Class: NotSent, Message: "nothing was sent: the call could not be noted", Err: fmt.Errorf("%w: %w", errNotNoted, err)}
}

var errNotNoted = errors.New("the call could not be noted")
