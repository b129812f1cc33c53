package openai

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/fencepost/fencepost/llm"
)

// cancelTime bounds the cancellation of a response that nobody waits for any more.
const cancelTime = 5 * time.Second

// follow is a response in the background on its way to an answer.
type follow struct {
	r      *Responses
	id     string
	hide   []string
	report llm.Report // of the request that began it; nothing of one that is only looked up
	parts  *events    // nil: it is not streamed
	poll   llm.Polling
	// settled is when a response that is not there will not appear any more.
	settled time.Time
}

// background begins a response and follows it. Its id is noted before anything else of the answer is read.
func (r *Responses) background(ctx context.Context, req llm.Request) (llm.Answer, error) {
	body, err := encodeResponse(req, r.Stream, true)
	if err != nil {
		return llm.Answer{}, llm.Unsendable(err)
	}
	ctx, cancel := r.Within(ctx)
	defer cancel()
	note := func(id string) error {
		if req.Noted == nil {
			return nil
		}
		return req.Noted(ctx, id)
	}
	hide := r.Hide(req)
	parts := &events{told: req.Text, begun: note}
	settled := time.Now().Add(r.Recovery.SettleDelay)
	resp, wire, f := r.Post(ctx, req, body, bearer(r.Endpoint, http.Header{}), parts.take)
	report := llm.Report{WireRequests: wire.Requests, RequestID: llm.RequestID(resp.Header)}
	flw := &follow{r: r, hide: hide, report: report, settled: settled, poll: llm.Polling{Every: r.Recovery.PollEvery}}
	switch {
	case resp.Streamed:
		flw.id, flw.parts = parts.id, parts
		if parts.err != nil {
			return flw.notNoted(ctx, parts.err)
		}
		if flw.id == "" || parts.final != nil { // an error in the stream need not be the response's end
			return parts.answer(resp.Status, report, f, hide...)
		}
	case f != nil:
		return llm.Answer{}, f
	case resp.Status < 200 || resp.Status > 299:
		return llm.Answer{}, llm.Refused(resp, wire, hide...)
	default:
		created, answer, err := decodeResponse(resp.Body, resp.Status, report, hide...)
		if created == nil {
			return answer, err
		}
		if flw.id = created.id(); flw.id == "" {
			return answer, err
		}
		if err := note(flw.id); err != nil {
			return flw.notNoted(ctx, err)
		}
		if !created.running() { // a server that does not know of a background has made it already
			return answer, err
		}
	}
	return flw.toEnd(ctx, resp.Streamed)
}

// notNoted ends a response that nobody would find again.
func (f *follow) notNoted(ctx context.Context, cause error) (llm.Answer, error) {
	if ctx.Err() != nil {
		return f.abandon(ctx, llm.Interrupted(ctx, true))
	}
	return f.abandon(ctx, &llm.Failure{Class: llm.Ambiguous, Err: cause, Message: "the response was begun and could not be noted: its cancellation was asked for"})
}

// recoverBackground follows an earlier response to its end.
func (r *Responses) recoverBackground(ctx context.Context, req llm.Request, lost llm.Lost) (llm.Answer, error) {
	if f := r.Recovery.Forgotten(lost); f != nil {
		return llm.Answer{}, f
	}
	ref := response{ID: []byte(strconv.Quote(lost.Ref))}
	if ref.id() == "" {
		return llm.Answer{}, llm.NoTrace("the id of the earlier response was never learned", llm.Report{})
	}
	f := &follow{r: r, id: lost.Ref, hide: r.Hide(req), settled: time.Now().Add(r.Recovery.SettleDelay - lost.Age),
		poll: llm.Polling{Every: r.Recovery.PollEvery}}
	return f.toEnd(ctx, true)
}

// toEnd asks for the response until it has ended, or ctx has. No generation is begun by it. now: the first question need
// not wait.
func (f *follow) toEnd(ctx context.Context, now bool) (llm.Answer, error) {
	for ; ; now = false {
		if ctx.Err() != nil || !now && !f.poll.Pause(ctx) {
			return f.interrupted(ctx)
		}
		last := !time.Now().Before(f.settled)
		resp, failed := f.r.Ask(ctx, f.question(http.MethodGet, ""))
		var found *response
		if failed == nil && resp.Status >= 200 && resp.Status <= 299 {
			var err error
			if found, _, err = decodeResponse(resp.Body, resp.Status, llm.Report{}, f.hide...); found == nil {
				failed = &llm.Failure{Message: err.Error(), Err: errNotResponse, Report: llm.Report{Lookups: 1}} // something in between spoke
			}
		}
		answered, giveUp := f.poll.Answered(resp, failed, f.hide...)
		switch {
		case found == nil && ctx.Err() != nil:
			return f.interrupted(ctx)
		case giveUp != nil:
			return f.unasked(giveUp)
		case found != nil && !found.running(): // also when ctx ended meanwhile: it is there, and paid for
			answer, err := found.judge(resp.Status, f.reported(), f.hide...)
			if f.report.WireRequests == 0 {
				err = llm.Ended(err)
			}
			return answer, err
		case found != nil:
			if answer, err, ended := f.resume(ctx); ended {
				return answer, err
			}
		case answered && last:
			return llm.Answer{}, llm.NoTrace("the provider does not know the response", f.reported())
		}
	}
}

// resume reads on behind the last event of a stream that broke off. It is not tried again where it brings nothing.
func (f *follow) resume(ctx context.Context) (llm.Answer, error, bool) {
	if f.parts == nil || f.parts.seen == 0 {
		return llm.Answer{}, nil, false
	}
	f.parts.seen, f.parts.unfit, f.parts.failed = 0, "", nil
	q := f.question(http.MethodGet, "?stream=true&starting_after="+strconv.FormatInt(f.parts.last, 10))
	q.Take = f.parts.take
	resp, failed := f.r.Ask(ctx, q)
	f.poll.Lookups++
	if failed != nil {
		f.poll.Lookups += failed.Lookups - 1
	}
	if !resp.Streamed || f.parts.final == nil {
		return llm.Answer{}, nil, false
	}
	answer, err := f.parts.answer(resp.Status, f.reported(), nil, f.hide...)
	return answer, err, true
}

func (f *follow) question(method, tail string) llm.Lookup {
	return llm.Lookup{Method: method, Path: responsesPath + "/" + f.id + tail, Header: bearer(f.r.Endpoint, http.Header{})}
}

// unasked is the end of a recovery, or of a call, whose questions get no answer.
func (f *follow) unasked(giveUp *llm.Failure) (llm.Answer, error) {
	giveUp.Report = f.reported()
	if f.report.WireRequests > 0 { // the call was made
		giveUp.Class = llm.Ambiguous
	}
	return llm.Answer{}, giveUp
}

// interrupted ends a call whose context ended. What another one takes up is left running.
func (f *follow) interrupted(ctx context.Context) (llm.Answer, error) {
	why := llm.Interrupted(ctx, true)
	if errors.Is(context.Cause(ctx), llm.ErrHandedOn) {
		why.Report = f.reported()
		return llm.Answer{}, why
	}
	return f.abandon(ctx, why)
}

// abandon cancels the response. One that was finished by then is an answer all the same.
func (f *follow) abandon(ctx context.Context, why *llm.Failure) (llm.Answer, error) {
	r := f.cancel(ctx)
	why.Report = f.reported()
	if r != nil {
		if answer, err := r.judge(http.StatusOK, why.Report, f.hide...); err == nil {
			return answer, nil
		}
		why.Report = r.report(why.Report)
	}
	return llm.Answer{}, why
}

// cancel tells the provider that nobody waits, and returns what it says of the response, nil when that cannot be read.
func (f *follow) cancel(ctx context.Context) *response {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	resp, failed := f.r.Ask(ctx, f.question(http.MethodPost, "/cancel"))
	f.poll.Lookups++
	if failed != nil {
		f.poll.Lookups += failed.Lookups - 1
		return nil
	}
	if resp.Status < 200 || resp.Status > 299 {
		return nil
	}
	r, _, _ := decodeResponse(resp.Body, resp.Status, llm.Report{})
	return r
}

// reported is the report so far.
func (f *follow) reported() llm.Report {
	report := f.report
	report.Lookups = f.poll.Lookups
	if report.RequestID == "" {
		report.RequestID = f.id
	}
	return report
}
