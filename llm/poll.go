package llm

import (
	"context"
	"net/http"
	"time"
)

// maxSilent is how many questions in a row may go unanswered before the asking ends.
const maxSilent = 6

// maxPause bounds the wait between two of them.
const maxPause = 15 * time.Second

// Polling paces the questions of one recovery, and gives up on a server that does not answer them.
type Polling struct {
	Every   time.Duration
	Lookups int // questions that were put on the wire
	silent  int
	asked   time.Duration // for a pause, by the server
}

// Answered takes in how one question went. It says whether the server answered it, also with the words that it has nothing
// there; if not, the next may be, until giveUp is not nil: then the question could not be asked.
func (p *Polling) Answered(resp Response, f *Failure, hide ...string) (answered bool, giveUp *Failure) {
	p.Lookups++
	if f != nil {
		p.Lookups += f.Lookups - 1
	}
	p.asked = 0
	var last *Failure
	switch {
	case f != nil:
		last = &Failure{Message: "no answer to the question: " + f.Message, Err: f.Err}
	case resp.Status >= 200 && resp.Status <= 299, resp.Status == http.StatusNotFound, resp.Status == http.StatusMethodNotAllowed:
		p.silent = 0
		return true, nil
	default:
		refused := Refused(resp, Wire{}, hide...)
		last = &Failure{Message: "the question was refused: " + refused.Message, Status: resp.Status, RetryAfter: refused.RetryAfter}
		if !refused.Class.Retryable() { // a key, a path or a server that will say the same again
			p.silent = maxSilent
		}
		p.asked = refused.RetryAfter
	}
	p.silent++
	if p.silent < maxSilent {
		return false, nil
	}
	last.Class = NotSent
	last.Lookups = p.Lookups
	return false, last
}

// Pause waits until the next question is due, longer the more of them went unanswered, and as long as the server asked
// for within reason. False: ctx ended.
func (p *Polling) Pause(ctx context.Context) bool {
	pause := min(max(p.Every<<min(p.silent, 10), p.asked), max(maxPause, p.Every))
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
