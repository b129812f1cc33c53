package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// Causes with which a running call is cancelled. Where another attempt goes on, what runs at the provider is left running
// to be found there.
var (
	errLeaseLost = fmt.Errorf("the assignment was lost: its lease ended or it was taken over: %w", llm.ErrHandedOn)
	errTaskOver  = errors.New("the task has ended: it was cancelled, or another attempt's answer is saved")
	errDeadline  = errors.New("the task's deadline passed")
	errTimeout   = errors.New("the call took longer than the call timeout")
	errStopped   = fmt.Errorf("the worker stops: %w", llm.ErrHandedOn)
)

// job is one assignment in work, from the claim to its settle.
type job struct {
	it     *item
	work   *tasks.Work
	ctx    context.Context
	cancel context.CancelCauseFunc
	drop   bool // claimed for a partition that is being revoked

	admitted bool // the gate is to hear what the call came to

	span  tasks.Span // of the attempt; nil: tracing is off
	trace string     // traceparent that the attempt's calls follow from

	history tasks.History // set before the call
	live    liveText

	claimedAt int64 // on the consumer's clock
	until     int64 // when the call must have ended, on the same

	// Consumer.mu guards:
	stray bool // given up: the record goes on without it
	over  bool // settled: slot and record are dealt with

	// leases.mu guards:
	renewed  int64 // when the last accepted renewal (or the claim) was sent, on the consumer's clock
	settling bool  // the settle was handed in: it decides, and a renewal that finds nothing says nothing
}

func (c *Consumer) newJob(it *item, work *tasks.Work, sent time.Time) *job {
	ctx, cancel := context.WithCancelCause(c.callCtx)
	at := int64(sent.Sub(c.epoch))
	limit, _ := c.callLimit(work)
	j := &job{it: it, work: work, ctx: ctx, cancel: cancel, claimedAt: at, renewed: at, until: at + int64(limit), trace: it.trace}
	if c.cfg.Tracer != nil {
		c.startTrace(j, sent)
	}
	return j
}

// callLimit is how long the call may take, and what is said when it takes longer.
func (c *Consumer) callLimit(work *tasks.Work) (time.Duration, error) {
	if work.Remaining < c.cfg.CallTimeout {
		return work.Remaining, errDeadline
	}
	return c.cfg.CallTimeout, errTimeout
}

// call runs the provider call of one attempt and hands in its settle. It is the job's own goroutine.
func (c *Consumer) call(j *job) {
	defer c.calls.Done()
	begin := time.Now()
	limit, cause := c.callLimit(j.work)
	ctx, cancel := context.WithTimeoutCause(j.ctx, limit, cause)
	out := c.attempt(ctx, j)
	answer, err := out.answer, out.err
	cancel()
	c.metrics.llmCall.Observe(time.Since(begin).Seconds())

	s := tasks.Settlement{Assignment: j.work.Assignment, Place: j.it.place()}
	var report llm.Report
	if err == nil {
		report = answer.Report
		s.Outcome = tasks.OutcomeComplete
		s.Candidate = tasks.Candidate{ReplyID: newID(), Text: answer.Text, Model: model(report, j.work), FinishReason: answer.FinishReason, Message: string(answer.Message)}
		c.metrics.attempts.WithLabelValues("answered").Inc()
	} else {
		f := failure(err)
		report = f.Report
		d := decide(c.cfg, j.work, f, context.Cause(ctx), time.Since(begin), c.recoverer != nil && !out.final)
		s.Outcome, s.RetryAfter, s.Handoff = d.outcome, d.after, d.handoff
		s.Failure = tasks.Failure{Class: d.class, Message: f.Message}
		c.metrics.attempts.WithLabelValues(d.class).Inc()
		c.log.Info("attempt failed", "task", j.work.TaskID, "attempt", j.work.Attempts, "max_attempts", j.work.MaxAttempts,
			"class", d.class, "failure", f.Message, "next", s.Outcome, "after", s.RetryAfter)
	}
	c.passed(j, report, err)
	c.metrics.wireRequests.Add(float64(report.WireRequests))
	s.Call = ledgerCall(report, j.work, err)
	s.Call.Recovered = out.recovered
	s.Call.HistoryTurns, s.Call.HistoryDropped = len(j.history.Turns), j.history.Dropped
	c.price(&s.Call, report.Usage)
	c.settle(j, s)
}

func failure(err error) *llm.Failure {
	var f *llm.Failure
	if errors.As(err, &f) {
		return f
	}
	// A provider that breaks its contract: nothing is known of the request.
	return &llm.Failure{Class: llm.Ambiguous, Message: "the provider failed without saying how", Err: err}
}

func model(r llm.Report, w *tasks.Work) string {
	if r.Model != "" {
		return r.Model
	}
	return w.Request.Model
}

// ledgerCall is what the ledger says of the attempt. Nothing sent, or refused before the model ran, costs nothing; a
// request that may have run and reported nothing costs an unknown amount (I7).
func ledgerCall(r llm.Report, w *tasks.Work, err error) tasks.Call {
	call := tasks.Call{WireRequests: r.WireRequests, ProviderRequestID: r.RequestID, Model: model(r, w)}
	if r.Usage != nil {
		input := r.Usage.Input()
		call.InputTokens, call.OutputTokens = &input, &r.Usage.OutputTokens
		call.CachedInputTokens, call.ReasoningTokens = &r.Usage.CachedInputTokens, &r.Usage.ReasoningTokens
	} else if err != nil && (r.WireRequests == 0 || !failure(err).Class.MayBeCharged()) {
		zero := int64(0)
		call.InputTokens, call.OutputTokens, call.PicoUSD = &zero, &zero, &zero
	}
	return call
}

func newID() uuid.UUID {
	id, err := uuid.NewV7()
	if err != nil {
		panic(err) // the system's random source failed: nothing can be told apart any more
	}
	return id
}
