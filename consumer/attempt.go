package consumer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// outcome is what an attempt came to.
type outcome struct {
	answer    llm.Answer
	err       error // nil: answer is a candidate
	recovered int64 // the version of the earlier attempt that this is about; 0: it is this one's own
	final     bool  // nothing more can be found out, and the task says stop
}

// attempt looks for the answer of a call that was lost, where there is one and a way to, and calls the provider if that
// says nothing. A panic in a provider is this attempt's failure, not the worker's end: its other calls are paid for.
func (c *Consumer) attempt(ctx context.Context, j *job) (out outcome) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("provider panicked", "task", j.work.TaskID, "panic", p, "stack", string(debug.Stack()))
			out = outcome{err: &llm.Failure{Class: llm.Ambiguous, Message: fmt.Sprintf("the provider's code panicked: %T", p)}}
		}
	}()
	req := prompt(j.work.Request, j.history)
	req.TraceParent, req.Op = j.trace, op(j.work.TaskID, j.work.Version)
	if c.cfg.Live != nil {
		req.Text = j.live.add
	}
	if c.recoverer == nil {
		out.answer, out.err = c.callProvider(ctx, j, req)
		return out
	}
	hash := requestHash(&req)
	noted := ""
	req.Noted = func(ctx context.Context, ref string) error {
		noted = ref
		return c.note(ctx, tasks.Note{Assignment: j.work.Assignment, Ref: ref, Request: hash})
	}
	if lost := j.work.Lost; lost != nil {
		if found, ok := c.recover(ctx, j, req, lost, hash); ok {
			return found
		}
		// From here on this attempt's own call is what may be lost.
		if err := req.Noted(ctx, req.Op); err != nil {
			return outcome{err: llm.NotNoted(err)}
		}
	}
	out.answer, out.err = c.callProvider(ctx, j, req)
	if out.err != nil && j.work.AttemptsSpent() && c.recoverer.Asks() {
		c.lastChance(ctx, j, req, noted, &out)
	}
	return out
}

// lastChance looks for the answer of the call that has just been lost, when there is no attempt left to do it.
func (c *Consumer) lastChance(ctx context.Context, j *job, req llm.Request, ref string, out *outcome) {
	sent := failure(out.err)
	if sent.Class != llm.Ambiguous || ctx.Err() != nil {
		return
	}
	answer, err := c.lookUp(ctx, j, req, llm.Lost{Op: req.Op, Ref: ref, Same: true, Age: time.Duration(c.now() - j.claimedAt)})
	switch f := (*llm.Failure)(nil); {
	case err == nil:
		answer.WireRequests += sent.WireRequests
		out.answer, out.err = answer, nil
		c.metrics.recoveries.WithLabelValues("found").Inc()
	case errors.Is(err, llm.ErrNoTrace):
		c.metrics.recoveries.WithLabelValues("no_trace").Inc()
	case errors.As(err, &f) && f.Class != llm.NotSent && f.Class != llm.Ambiguous && f.Class != llm.Cancelled:
		f.WireRequests += sent.WireRequests
		out.err = f
		c.metrics.recoveries.WithLabelValues("found").Inc()
	default:
		c.metrics.recoveries.WithLabelValues("unknown").Inc()
	}
}

// recover asks what became of a lost call. False: nothing is known of it, and the task accepts a second one.
func (c *Consumer) recover(ctx context.Context, j *job, req llm.Request, lost *tasks.Lost, hash []byte) (out outcome, ok bool) {
	stop := j.work.OnAmbiguous == tasks.AmbiguousStop
	if lost.Provider != c.provider.Name() {
		c.metrics.recoveries.WithLabelValues("elsewhere").Inc()
		out.err = &llm.Failure{Class: llm.Ambiguous, Message: "an earlier attempt at another provider may have run, and the task says stop"}
		out.final = stop
		return out, stop
	}
	was := llm.Lost{
		Op: op(j.work.TaskID, lost.Version), Ref: lost.Ref, Same: bytes.Equal(lost.Request, hash),
		Age: lost.Age + time.Duration(c.now()-j.claimedAt),
	}
	if strings.HasPrefix(lost.Ref, opsOf(j.work.TaskID)) {
		was.Op = lost.Ref // it was itself looking for that one
	}
	// Whoever comes after an attempt that dies while it looks, or whose look-up was a request that is lost in its turn, has to
	// look for the same call.
	if err := c.note(ctx, tasks.Note{Assignment: j.work.Assignment, Ref: cmp.Or(lost.Ref, was.Op), Request: lost.Request}); err != nil {
		return outcome{err: llm.NotNoted(err)}, true
	}
	out.answer, out.err = c.lookUp(ctx, j, req, was)
	class := llm.Class("")
	if out.err != nil {
		class = failure(out.err).Class
	}
	word := "found"
	switch {
	case errors.Is(out.err, llm.ErrNoTrace) && failure(out.err).Usage != nil:
		// It has ended without an answer and says what it cost: that goes into its row of the ledger (I7), which only the
		// settle of an attempt that is about it can do. The next attempt calls anew.
		word = "ended"
		out.recovered, out.final = lost.Version, stop
	case errors.Is(out.err, llm.ErrNoTrace):
		word = "no_trace"
		out.final = stop
	case class == llm.NotSent, class == llm.Ambiguous, class == llm.Cancelled:
		word = "unknown"
	default:
		out.recovered = lost.Version
	}
	c.metrics.recoveries.WithLabelValues(word).Inc()
	c.log.Info("looked for the answer of a lost call", "task", j.work.TaskID, "attempt", lost.Attempt, "found", word, "failure", out.err)
	return out, word != "no_trace" || stop
}

// op names an attempt at the provider.
func op(task uuid.UUID, version int64) string { return opsOf(task) + strconv.FormatInt(version, 10) }

// opsOf is what the names of a task's attempts begin with.
func opsOf(task uuid.UUID) string { return "fp-" + task.String() + "-" }

// requestHash digests what a request asks, so that it is known later whether another one asks the same.
func requestHash(r *llm.Request) []byte {
	h := sha256.New()
	var size [8]byte
	field := func(s string) {
		binary.BigEndian.PutUint64(size[:], uint64(len(s)))
		h.Write(size[:])
		h.Write([]byte(s))
	}
	field(r.Model)
	field(r.System)
	for _, m := range r.History {
		field(string(m.Role))
		field(m.Text)
	}
	field("message")
	field(r.Content)
	number := func(n uint64) {
		binary.BigEndian.PutUint64(size[:], n)
		h.Write(size[:])
	}
	if r.Temperature != nil {
		field("temperature")
		number(math.Float64bits(*r.Temperature))
	}
	if r.MaxOutputTokens != nil {
		field("max_output_tokens")
		number(uint64(*r.MaxOutputTokens))
	}
	if c := r.Chat; c != nil {
		field("chat")
		field(string(c.Messages))
		field(string(c.Params))
	}
	return h.Sum(nil)
}
