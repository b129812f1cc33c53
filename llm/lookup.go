package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// lookupTime bounds one question whose answer is not streamed.
const lookupTime = 30 * time.Second

// Lookup is a question about an earlier call, or its cancellation: a request that generates nothing.
type Lookup struct {
	Method string
	Path   string // behind the base URL, with its query
	Header http.Header
	Take   func(Event) (more bool) // of a streamed answer; nil: it is read whole
}

// Ask puts one such question on the wire, once, as Post does: it is the caller's to repeat. A status is no error. What it
// wrote counts as Lookups in a failure's report, never as WireRequests.
func (e *Endpoint) Ask(ctx context.Context, q Lookup) (Response, *Failure) {
	req, err := http.NewRequest(q.Method, e.base+q.Path, nil)
	if err != nil {
		return Response{}, &Failure{Class: NotSent, Message: "the question cannot be made", Err: errors.New("the path of a look-up cannot be read")}
	}
	req.Header = q.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header["User-Agent"] = []string{"fencepost"}
	var resp Response
	var wire Wire
	if q.Take != nil {
		req.Header["Accept"] = []string{"text/event-stream, application/json"}
		resp, wire, err = e.client.Stream(ctx, req, q.Take)
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, lookupTime, errLookupTime)
		defer cancel()
		req.Header["Accept"] = []string{"application/json"}
		resp, wire, err = e.client.Do(ctx, req)
	}
	if err == nil {
		return resp, nil
	}
	var f *Failure
	if !errors.As(err, &f) {
		f = &Failure{Class: Ambiguous, Message: "the question failed", Err: err}
	}
	f.WireRequests, f.Lookups = 0, wire.Requests
	return resp, f
}

var errLookupTime = errors.New("the question was not answered in time")

// NoTrace is the failure of a recovery that found nothing.
func NoTrace(why string, report Report) *Failure {
	return &Failure{Class: Ambiguous, Message: why, Err: ErrNoTrace, Report: report}
}

// Ended makes of what an earlier call is known to have come to the outcome of its recovery: where that is ambiguous, there
// is no answer to be found by asking again.
func Ended(err error) error {
	if f, ok := err.(*Failure); ok && f.Class == Ambiguous {
		f.Err = ErrNoTrace
	}
	return err
}

// Forgotten is the failure of a recovery of a call that is too old to be found, nil when it is not.
func (c RecoveryConfig) Forgotten(lost Lost) *Failure {
	if lost.Age < c.Retention {
		return nil
	}
	return NoTrace(fmt.Sprintf("the earlier call is %s old, and the provider keeps them for %s: it was not asked", lost.Age.Round(time.Second), c.Retention), Report{})
}
