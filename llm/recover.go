package llm

import (
	"context"
	"errors"
	"time"
)

// Recovery is a provider's way to find out what became of a call whose answer was lost. It is declared by the operator
// and never inferred: servers accept the parameters of all of them and keep nothing.
type Recovery string

const (
	// RecoverNone: there is no way; an ambiguous call is ended by the task's policy. The default.
	RecoverNone Recovery = "none"
	// RecoverStored: chat completions are stored with the attempt's name in their metadata, and found by it.
	RecoverStored Recovery = "stored-completions"
	// RecoverBackground: Responses made in the background, found by the id that the first event tells.
	RecoverBackground Recovery = "background"
	// RecoverKey: the server documents an idempotency key; the same request under the same key is not carried out twice.
	RecoverKey Recovery = "idempotency-key"
)

// Recoverer is a Provider that may be able to recover.
type Recoverer interface {
	Provider
	// Recovers reports whether a way to recover was declared.
	Recovers() bool
	// Asks reports whether Recover only asks, and puts no request on the wire that begins a generation where there is none.
	Asks() bool
	// Recover looks for the answer of an earlier call, or waits for it where it is still being made. It begins no second
	// generation: RecoverKey puts one request on the wire, which the key makes the same one; the others only ask.
	// The error is a *Failure. ErrNoTrace in its chain: nothing was found, although everything that the way of recovery
	// promises was waited for, which is no proof that nothing was charged. NotSent: the question could not be asked, and may
	// be asked again. Anything else is what the earlier call came to.
	Recover(ctx context.Context, req Request, lost Lost) (Answer, error)
}

// Lost is a call whose answer was lost.
type Lost struct {
	Op  string        // the name of the attempt
	Ref string        // what was noted of it; empty: nothing
	Age time.Duration // since it was claimed
	// Same: it is known that req is the request that was sent.
	Same bool
}

// ErrNoTrace: a lost call could not be found. It may have run all the same.
var ErrNoTrace = errors.New("no trace of the earlier call was found")

// ErrInProgress: the earlier call is still being made. Nothing was begun again, and it may be asked for later.
var ErrInProgress = errors.New("the earlier call is still being made")

// ErrHandedOn is put into the cause of a context whose call another process takes up: what runs at the provider is then
// left running, to be found there. A context that ends for any other reason has it cancelled.
var ErrHandedOn = errors.New("the call is handed on")
