package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// Spans: one for an attempt, from the claim to the verdict on its settle, and in it one for each call of the provider. The
// attempt's is a child of whatever published the record, so that a task's attempts, on any worker, are one trace with its
// submission. The names of a call are those of OpenTelemetry's conventions for generative AI, which are not stable yet:
// they are in this file only.

// startTrace begins the attempt's span at its claim.
func (c *Consumer) startTrace(j *job, claimed time.Time) {
	it, w := j.it, j.work
	j.span = c.cfg.Tracer.Start(tasks.SpanStart{Name: "process " + it.asg.topic, Kind: tasks.SpanConsumer, Parent: it.trace, Link: it.before, At: claimed})
	j.trace = j.span.TraceParent()
	it.before = j.trace
	for _, a := range []struct {
		key   string
		value any
	}{
		{"messaging.system", "kafka"}, {"messaging.operation.name", "process"}, {"messaging.operation.type", "process"},
		{"messaging.destination.name", it.asg.topic}, {"messaging.destination.partition.id", int(it.asg.partition)},
		{"messaging.kafka.offset", it.offset}, {"messaging.consumer.group.name", c.cfg.Group},
		{"fencepost.task", w.TaskID.String()}, {"fencepost.workspace", w.Workspace}, {"fencepost.attempt", w.Attempts}, {"fencepost.worker", c.cfg.Worker},
	} {
		j.span.Set(a.key, a.value)
	}
	j.span.Event("claimed", "fencepost.assignment_version", w.Version, "fencepost.queued_seconds", w.Queued.Seconds())
}

// traceSettled ends the attempt's span. With c.mu held; the second settle of a call that was given up ends nothing more.
func (j *job) traceSettled(s tasks.Settlement, v tasks.Settled) {
	if j.span == nil {
		return
	}
	j.span.Event("settled", "fencepost.outcome", string(s.Outcome), "fencepost.verdict", string(v.Verdict), "fencepost.task_status", string(v.Status))
	failure := s.Failure.Class
	if v.Verdict != tasks.VerdictAccepted {
		failure = string(v.Verdict)
	}
	j.span.End(failure)
}

// traceAbandoned ends the span of an attempt whose end could not be stored. With c.mu held.
func (j *job) traceAbandoned() {
	if j.span != nil {
		j.span.End("abandoned")
	}
}

// callProvider is the provider's Call in a span.
func (c *Consumer) callProvider(ctx context.Context, j *job, req llm.Request) (llm.Answer, error) {
	if c.cfg.Tracer == nil {
		return c.provider.Call(ctx, req)
	}
	span := c.startCall("chat", j, &req)
	if req.Temperature != nil {
		span.Set("gen_ai.request.temperature", *req.Temperature)
	}
	if req.MaxOutputTokens != nil {
		span.Set("gen_ai.request.max_tokens", *req.MaxOutputTokens)
	}
	return endCall(span, true, func() (llm.Answer, error) { return c.provider.Call(ctx, req) })
}

// lookUp is the recoverer's Recover in a span. It reports no usage: that is of the call that it finds.
func (c *Consumer) lookUp(ctx context.Context, j *job, req llm.Request, lost llm.Lost) (llm.Answer, error) {
	if c.cfg.Tracer == nil {
		return c.recoverer.Recover(ctx, req, lost)
	}
	span := c.startCall("fetch_response", j, &req)
	return endCall(span, false, func() (llm.Answer, error) { return c.recoverer.Recover(ctx, req, lost) })
}

// startCall begins a call's span, which the request then names as its parent.
func (c *Consumer) startCall(operation string, j *job, req *llm.Request) tasks.Span {
	span := c.cfg.Tracer.Start(tasks.SpanStart{Name: operation + " " + req.Model, Kind: tasks.SpanClient, Parent: req.TraceParent})
	req.TraceParent = span.TraceParent()
	span.Set("gen_ai.operation.name", operation)
	span.Set("gen_ai.provider.name", c.provider.Name())
	span.Set("gen_ai.request.model", req.Model)
	span.Set("fencepost.task", j.work.TaskID.String())
	span.Set("fencepost.attempt", j.work.Attempts)
	return span
}

// endCall makes the call and ends its span, also when the provider's code panics.
func endCall(span tasks.Span, usage bool, call func() (llm.Answer, error)) (answer llm.Answer, err error) {
	word := "panic"
	defer func() { span.End(word) }()
	answer, err = call()
	report := answer.Report
	if err != nil {
		report = failure(err).Report
	}
	if report.Model != "" {
		span.Set("gen_ai.response.model", report.Model)
	}
	if report.RequestID != "" {
		span.Set("fencepost.provider_request_id", report.RequestID)
	}
	span.Set("fencepost.wire_requests", report.WireRequests)
	if u := report.Usage; u != nil && usage {
		span.Set("gen_ai.usage.input_tokens", u.Input())
		span.Set("gen_ai.usage.output_tokens", u.OutputTokens)
		span.Set("gen_ai.usage.cache_read.input_tokens", u.CachedInputTokens)
	}
	switch {
	case err == nil:
		span.Set("gen_ai.response.finish_reasons", []string{answer.FinishReason})
		word = ""
	case errors.Is(err, llm.ErrNoTrace):
		word = "" // nothing is known of the call that was asked for, which is an answer
	default:
		word = string(failure(err).Class)
	}
	return answer, err
}
