package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// postMessage is a press of Send.
func (s *Server) postMessage(c *call) (int, error) {
	key, p := idempotencyKey(c.r.Header)
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
	submission, p := s.submission(c, key, conversation, m)
	if p != nil {
		return 0, p
	}
	result, err := s.batcher.submit(submission)
	if err == nil {
		err = result.Err
	}
	if err != nil {
		return 0, submitProblem(result, err)
	}
	return s.answer(c, submission, result)
}

// submission is m with what the server adds. Its ids are chosen here, once, so that every repeat towards the store is
// recognised.
func (s *Server) submission(c *call, key, conversation string, m *message) (tasks.Submission, *problem) {
	submission := tasks.Submission{
		Workspace: c.workspace, Operation: tasks.OperationMessage, Key: key,
		TaskID: uuid.Must(uuid.NewV7()), MessageID: uuid.Must(uuid.NewV7()),
		Conversation: conversation, Kind: tasks.KindReply,
		Request: tasks.Request{
			Content: m.Content, Model: m.Model, System: m.System, PromptTemplate: m.PromptTemplate,
			Temperature: m.Temperature, MaxOutputTokens: m.MaxOutputTokens,
		},
		MaxAttempts: s.defaults.MaxAttempts, MaxInterruptions: s.defaults.MaxInterruptions,
		DeadlineAfter: s.defaults.Deadline, OnAmbiguous: m.OnAmbiguous, Metadata: m.Metadata,
		TraceParent: traceParent(c.r.Header),
	}
	if m.Document != nil {
		submission.Request.Document = *m.Document
	}
	// Of what the caller sent: a server with another default model must still know the repeat.
	submission.Fingerprint = submission.ComputeFingerprint()
	if submission.Request.Model == "" {
		if submission.Request.Model = s.defaults.Model; submission.Request.Model == "" {
			return submission, invalidField("model", "is missing, and this server has no default")
		}
	}
	if m.MaxAttempts != nil {
		submission.MaxAttempts = *m.MaxAttempts
	}
	if m.DeadlineSeconds != nil {
		submission.DeadlineAfter = time.Duration(*m.DeadlineSeconds) * time.Second
	}
	// A key that is forgotten before its task has ended would let a repeat pay twice.
	submission.Retention = max(s.defaults.Retention, submission.DeadlineAfter)
	return submission, nil
}

// submitProblem never says that nothing was stored unless that is known.
func submitProblem(result tasks.Submitted, err error) *problem {
	switch {
	case errors.Is(err, tasks.ErrKeyReused):
		return keyReused(result.TaskID)
	case errors.Is(err, tasks.ErrInProgress):
		return inProgress()
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
	if !own {
		h["Idempotency-Replayed"] = []string{"true"}
	}
	return writeJSON(c.w, http.StatusAccepted, viewTask(task))
}

// freshTask is the task of a submission that has just been stored.
func freshTask(s tasks.Submission, result tasks.Submitted) tasks.Task {
	return tasks.Task{
		ID: s.TaskID, Workspace: s.Workspace, Conversation: s.Conversation, MessageID: s.MessageID,
		Kind: s.Kind, Status: tasks.StatusQueued,
		AcceptedAt: result.AcceptedAt, AvailableAt: result.AcceptedAt, Deadline: result.Deadline,
		Budget: tasks.Budget{MaxAttempts: s.MaxAttempts, MaxInterruptions: s.MaxInterruptions},
		Model:  s.Request.Model, Document: s.Request.Document, OnAmbiguous: s.OnAmbiguous, Metadata: s.Metadata,
		Cost: tasks.Cost{PicoUSD: new(int64)},
	}
}
