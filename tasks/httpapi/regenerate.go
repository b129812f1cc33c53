package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// regenerateTask is a press of Regenerate: new work on the message of a task, whatever has become of that. What was asked
// then is asked again, with what the body changes; attempts and deadline are those of a new message.
func (s *Server) regenerateTask(c *call) (int, error) {
	operation, key, p := keyOf(c.r.Header, tasks.OperationRegenerate)
	if p != nil {
		return 0, p
	}
	id, p := taskID(c.r)
	if p != nil {
		return 0, p
	}
	if p := noParams(c.r); p != nil {
		return 0, p
	}
	size := overridesLimit
	if n := c.r.ContentLength; n >= 0 {
		size = min(size, n)
	}
	defer s.bytes.Add(-size)
	if s.bytes.Add(size) > s.limits.MaxBytes {
		return 0, overloaded("too many requests are being read; nothing was stored, repeat with the same key", nil)
	}
	o, p := readOverrides(c.w, c.r)
	if p != nil {
		return 0, p
	}
	ctx, cancel := s.read(c)
	defer cancel()
	asked, err := s.store.Original(ctx, c.workspace, id)
	if err != nil {
		return 0, err
	}
	if p := o.apply(&asked, s.limits); p != nil {
		return 0, p
	}
	asked.Operation, asked.Key = operation, key
	asked.Kind, asked.Regenerates, asked.TaskID = tasks.KindRegenerate, id, uuid.Must(uuid.NewV7())
	asked.MaxAttempts, asked.MaxInterruptions, asked.DeadlineAfter = s.defaults.MaxAttempts, s.defaults.MaxInterruptions, s.defaults.Deadline
	asked.Retention = max(s.defaults.Retention, asked.DeadlineAfter+afterDeadline)
	asked.TraceParent = c.traceParent()
	submission, result, err := s.accept(c, asked)
	if err != nil {
		return 0, err
	}
	return s.answer(c, submission, result)
}

// overrides is the body of POST /v1/tasks/{id}/regenerate. What it leaves out is as it was.
type overrides struct {
	Model           string            `json:"model"`
	Temperature     *float64          `json:"temperature"`
	MaxOutputTokens *whole            `json:"max_output_tokens"`
	Metadata        map[string]string `json:"metadata"`
}

// overridesLimit fits every body whose fields are within their limits.
const overridesLimit int64 = 6*(maxModel+maxMetadata*(maxMetadataKey+maxMetadataValue)) + 8<<10

// readOverrides reads a body, which may be empty.
func readOverrides(w http.ResponseWriter, r *http.Request) (overrides, *problem) {
	var o overrides
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, overridesLimit))
	var tooMany *http.MaxBytesError
	switch {
	case errors.As(err, &tooMany):
		return o, tooLarge("body", int(overridesLimit))
	case err != nil:
		p := invalidField("body", "could not be read to its end")
		p.cause = err
		return o, p
	case len(bytes.TrimSpace(body)) == 0:
		return o, nil
	}
	if p := checkMediaType(r.Header); p != nil {
		return o, p
	}
	p := parseObject(body, &o)
	return o, p
}

// apply changes what is asked again.
func (o overrides) apply(asked *tasks.Submission, limits Limits) *problem {
	// The fields have the limits of a message's.
	m := message{Content: "-", Model: o.Model, Temperature: o.Temperature, MaxOutputTokens: o.MaxOutputTokens, Metadata: o.Metadata}
	if p := m.check(limits); p != nil {
		return p
	}
	r := &asked.Request
	if r.Chat != nil {
		switch {
		case o.Temperature != nil:
			return invalidField("temperature", "cannot be changed: it is part of the chat completion that was asked for")
		case o.MaxOutputTokens != nil:
			return invalidField("max_output_tokens", "cannot be changed: it is part of the chat completion that was asked for")
		}
	}
	if o.Model != "" {
		r.Model = o.Model
	}
	if o.Temperature != nil {
		r.Temperature = o.Temperature
	}
	if o.MaxOutputTokens != nil {
		r.MaxOutputTokens = (*int)(o.MaxOutputTokens)
	}
	if o.Metadata != nil {
		asked.Metadata = o.Metadata
	}
	return nil
}
