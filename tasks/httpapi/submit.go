package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// afterDeadline is for callers who wait for the end of a task before they repeat: the key is known then, still.
const afterDeadline = time.Hour

// postMessage is a press of Send.
func (s *Server) postMessage(c *call) (int, error) {
	operation, key, p := keyOf(c.r.Header, tasks.OperationMessage)
	if p != nil {
		return 0, p
	}
	conversation := c.r.PathValue("conversation")
	if p := checkConversation(conversation); p != nil {
		return 0, p
	}
	if p := noParams(c.r); p != nil {
		return 0, p
	}
	size := bodyLimit(s.limits.MaxContent) // the most that is read
	if n := c.r.ContentLength; n >= 0 {
		size = min(size, n)
	}
	defer s.bytes.Add(-size)
	if s.bytes.Add(size) > s.limits.MaxBytes {
		return 0, overloaded("too many requests are being read; nothing was stored, repeat with the same key", nil)
	}
	m, p := readMessage(c.w, c.r, s.limits)
	if p != nil {
		return 0, p
	}
	submission, result, err := s.accept(c, s.asked(c, operation, key, conversation, m))
	if err != nil {
		return 0, err
	}
	return s.answer(c, submission, result)
}

// accept stores what was asked, or finds what its key is bound to: every route that makes work comes through here. An
// error is a problem, or one that asProblem knows.
func (s *Server) accept(c *call, asked tasks.Submission) (submission tasks.Submission, result tasks.Submitted, err error) {
	giveBack, p := s.admit(c, asked)
	if p != nil {
		return submission, result, p
	}
	defer func() {
		if err != nil || result.TaskID != submission.TaskID {
			giveBack()
		}
		if err == nil {
			c.trace(asked, result)
		}
	}()
	if submission, p = s.submission(asked); p != nil {
		if result, ok := s.repeats(c, asked); ok {
			return submission, result, nil
		}
		return submission, result, p
	}
	result, err = s.batcher.submit(submission)
	if err == nil {
		err = result.Err
	}
	if errors.Is(err, tasks.ErrKeyReused) {
		if bound, ok := s.repeats(c, asked); ok {
			result, err = bound, nil
		}
	}
	if err != nil {
		return submission, result, submitProblem(result, err)
	}
	return submission, result, nil
}

// asked is what the caller said, with what the server adds to all. Its ids are chosen here, once, so that every repeat
// towards the store is recognised.
func (s *Server) asked(c *call, operation, key, conversation string, m *message) tasks.Submission {
	asked := tasks.Submission{
		Workspace: c.workspace, Operation: operation, Key: key,
		TaskID: uuid.Must(uuid.NewV7()), MessageID: uuid.Must(uuid.NewV7()),
		Conversation: conversation, Kind: tasks.KindReply,
		Request: tasks.Request{
			Content: m.Content, Model: m.Model, System: m.System, PromptTemplate: m.PromptTemplate,
			Temperature: m.Temperature, MaxOutputTokens: (*int)(m.MaxOutputTokens),
		},
		MaxAttempts: s.defaults.MaxAttempts, MaxInterruptions: s.defaults.MaxInterruptions,
		DeadlineAfter: s.defaults.Deadline, OnAmbiguous: m.OnAmbiguous, Metadata: m.Metadata,
		TraceParent: c.traceParent(),
	}
	if m.Document != nil {
		asked.Request.Document = *m.Document
	}
	if m.MaxAttempts != nil {
		asked.MaxAttempts = int(*m.MaxAttempts)
	}
	if m.DeadlineSeconds != nil {
		asked.DeadlineAfter = time.Duration(*m.DeadlineSeconds) * time.Second
	}
	// A key that is forgotten before its task has ended would let a repeat pay twice.
	asked.Retention = max(s.defaults.Retention, asked.DeadlineAfter+afterDeadline)
	return asked
}

// submission is what was asked with what was left open filled in: the template's version and text, the model.
func (s *Server) submission(asked tasks.Submission) (tasks.Submission, *problem) {
	submission := asked
	r := &submission.Request
	var template parsedTemplate
	// What is regenerated has its template's text in System, as it was then.
	if s.templates != nil && r.PromptTemplate != "" && asked.Kind != tasks.KindRegenerate {
		var p *problem
		if template, p = s.templates.find(r.PromptTemplate); p != nil {
			return submission, p
		}
		r.PromptTemplate, r.PromptTemplateVersion = template.name, template.version
	}
	// Of the caller's system text and the template's version, not of the text that they make; and before the default model
	// is filled in: a server with another default must still know the repeat.
	// That of a chat completion is taken of its canonical form, by the door, which sends on what came.
	if r.Chat == nil || asked.Kind != tasks.KindReply {
		submission.Fingerprint = submission.ComputeFingerprint()
	}
	if template.name != "" {
		if p := template.apply(r); p != nil {
			return submission, p
		}
	}
	if r.Model == "" {
		if r.Model = s.defaults.Model; r.Model == "" {
			return submission, invalidField("model", "is missing, and this server has no default")
		}
	}
	s.reserved(&submission)
	return submission, nil
}

// submitProblem never says that nothing was stored unless that is known.
func submitProblem(result tasks.Submitted, err error) *problem {
	switch {
	case errors.Is(err, tasks.ErrKeyReused):
		return keyReused(result.TaskID)
	case errors.Is(err, tasks.ErrInProgress):
		return inProgress()
	case errors.Is(err, tasks.ErrBudget):
		return budgetExhausted(time.Now())
	case errors.Is(err, tasks.ErrUnpriced):
		return unpriced()
	case errors.Is(err, tasks.ErrInvalid):
		p := newProblem(http.StatusBadRequest, "invalid_request", "The request is not valid", "this message cannot be stored")
		p.cause = err
		return p
	case errors.Is(err, errQueueFull):
		return overloaded("too many submissions are waiting; nothing was stored, repeat with the same key", err)
	case errors.Is(err, errStopped):
		return overloaded("this server is stopping; nothing was stored, repeat with the same key", err)
	case errors.Is(err, errUnknown), errors.Is(err, tasks.ErrUnavailable):
		return overloaded("the message may or may not have been stored; repeat with the same key to learn which", err)
	default:
		return internal("the message may or may not have been stored; repeat with the same key to learn which", err)
	}
}

// answer is the 202: the task as it stands now. What was stored just now is known without asking.
func (s *Server) answer(c *call, submission tasks.Submission, result tasks.Submitted) (int, error) {
	task := freshTask(submission, result)
	own := result.TaskID == submission.TaskID
	if result.AcceptedAt.IsZero() || !own {
		ctx, cancel := s.read(c)
		defer cancel()
		var err error
		if task, err = s.store.Task(ctx, c.workspace, result.TaskID); err != nil {
			p := asProblem(err)
			if p.Status == http.StatusNotFound {
				p = internal("the task of this key could not be read", err)
			}
			p.Detail = "the message is stored, but its task cannot be read at the moment; repeat with the same key"
			p.TaskID = result.TaskID.String()
			return 0, p
		}
	}
	h := c.w.Header()
	h["Location"] = []string{"/v1/tasks/" + result.TaskID.String()}
	sayKey(h, result, !own, task)
	return writeJSON(c.w, http.StatusAccepted, viewTask(task))
}

// freshTask is the task of a submission that has just been stored.
func freshTask(s tasks.Submission, result tasks.Submitted) tasks.Task {
	return tasks.Task{
		ID: s.TaskID, Workspace: s.Workspace, Conversation: s.Conversation, MessageID: s.MessageID,
		Kind: s.Kind, Regenerates: s.Regenerates, Status: tasks.StatusQueued,
		AcceptedAt: result.AcceptedAt, AvailableAt: result.AcceptedAt, Deadline: result.Deadline,
		Budget: tasks.Budget{MaxAttempts: s.MaxAttempts, MaxInterruptions: s.MaxInterruptions},
		Model:  s.Request.Model, Document: s.Request.Document, OnAmbiguous: s.OnAmbiguous, Metadata: s.Metadata,
		PromptTemplate: s.Request.PromptTemplate, PromptTemplateVersion: s.Request.PromptTemplateVersion,
		Cost: tasks.Cost{PicoUSD: new(int64)},
	}
}
