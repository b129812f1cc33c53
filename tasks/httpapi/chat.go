package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// taskHeader names the task behind a chat completion.
const taskHeader = "Fencepost-Task"

// postChat is the OpenAI-compatible door: a task like any other, and the wait for it.
func (s *Server) postChat(c *call) (int, error) {
	operation, key, p := keyOf(c.r.Header, tasks.OperationChat)
	if p != nil && s.keyless && p.Code == codeKeyMissing {
		operation, key, p = tasks.OperationChat, "made-"+uuid.NewString(), nil
		c.w.Header()[keyHeader] = []string{key} // so that it can be repeated after all
	}
	if p != nil {
		return 0, p
	}
	if p := noParams(c.r); p != nil {
		return 0, p
	}
	size := int64(maxChatBody) // the most that is read
	if n := c.r.ContentLength; n >= 0 {
		size = min(size, n)
	}
	if s.bytes.Add(size) > s.limits.MaxBytes {
		s.bytes.Add(-size)
		return 0, overloaded("too many requests are being read; nothing was stored, repeat with the same key", nil)
	}
	req, submission, result, err := s.acceptChat(c, operation, key)
	s.bytes.Add(-size) // what follows is a wait, and holds none of it
	if err != nil {
		return 0, err
	}
	c.w.Header()[taskHeader] = []string{result.TaskID.String()}
	d := &door{s: s, c: c, req: req, result: result, replayed: result.TaskID != submission}
	if req.stream {
		return d.stream()
	}
	return d.whole()
}

// acceptChat stores the task, or finds the one that the key is bound to. submission is the id that a new one has.
func (s *Server) acceptChat(c *call, operation, key string) (req *chatCall, submission uuid.UUID, result tasks.Submitted, err error) {
	req, p := readChat(c.w, c.r)
	if p != nil {
		return nil, submission, result, p
	}
	asked := s.asked(c, operation, key, "", &message{
		Content: req.content, Model: req.model, OnAmbiguous: tasks.AmbiguousRetry, Metadata: req.metadata,
	})
	asked.Fingerprint = req.fingerprint(asked)
	// The messages say all that was said before: a conversation of its own has nothing to add.
	asked.Conversation = "chat-" + asked.TaskID.String()
	chat := req.chat // its own: when the outcome is not known, it may still be on its way to the store
	asked.Request.Chat, asked.Request.MaxOutputTokens = &chat, req.limit
	_, result, err = s.accept(c, asked)
	req.chat, req.same, req.content = tasks.Chat{}, tasks.Chat{}, "" // the wait need not hold them
	return req, asked.TaskID, result, err
}

// fingerprint digests what the caller said: its canonical form, in no conversation, under whichever key.
func (req *chatCall) fingerprint(asked tasks.Submission) [32]byte {
	asked.Conversation, asked.Request.Content, asked.Request.Chat = "", "", &req.same
	return asked.ComputeFingerprint()
}

// door is the wait of one request for its task, and the answer.
type door struct {
	s        *Server
	c        *call
	req      *chatCall
	result   tasks.Submitted
	replayed bool // the key was known
}

// whole answers once the task has ended.
func (d *door) whole() (int, error) {
	s, wait := d.s, d.s.limits.MaxChatWait
	// As in getTask: the wait is no slowness of the client's.
	_ = http.NewResponseController(d.c.w).SetWriteDeadline(time.Now().Add(wait + s.limits.ReadTimeout + writeTime))
	awaited, err := s.await(d.c.r.Context(), d.c.workspace, d.result.TaskID, wait)
	if err != nil {
		return 0, d.unread(err)
	}
	task := *awaited
	if !task.Status.Terminal() {
		select {
		case <-s.hub.draining:
			return 0, d.stopping()
		default:
			return 0, d.unfinished()
		}
	}
	sayKey(d.c.w.Header(), d.result, d.replayed, task)
	if task.Status != tasks.StatusCompleted {
		return 0, taskProblem(task)
	}
	usage, err := s.chatUsage(d.c, task)
	if err != nil {
		return 0, d.unread(err)
	}
	return writeJSON(d.c.w, http.StatusOK, viewCompletion(task, usage))
}

// unread is the problem of a task that is stored and cannot be read.
func (d *door) unread(err error) *problem {
	p := asProblem(err)
	if p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests {
		p = internal("the task of this key could not be read", err)
	}
	p.TaskID = d.result.TaskID.String()
	p.Detail = "the task is stored, but cannot be waited for at the moment; repeat with the same key"
	return p
}

// unfinished is the end of a wait that was too short. The task goes on.
func (d *door) unfinished() *problem {
	p := newProblem(http.StatusConflict, "idempotency_in_progress", "The first request is still in progress",
		"the task is not finished yet; repeat with the same key to wait for it again")
	p.retryAfter, p.TaskID = 1, d.result.TaskID.String()
	return p
}

func (d *door) stopping() *problem {
	p := overloaded("this server is stopping; the task goes on, repeat with the same key", nil)
	p.TaskID = d.result.TaskID.String()
	return p
}

// chatUsage is what the attempt cost that brought the reply; nil: that is not known.
func (s *Server) chatUsage(c *call, task tasks.Task) (*chatUsage, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), s.limits.ReadTimeout)
	defer cancel()
	attempts, err := s.store.Attempts(ctx, c.workspace, task.ID)
	if err != nil {
		return nil, err
	}
	return usageOf(attempts), nil
}

// statusOf is the HTTP status that a task's failure comes to, by its class.
var statusOf = map[string]int{
	"permanent": http.StatusBadRequest, "rejected_output": http.StatusUnprocessableEntity,
	"quota": http.StatusTooManyRequests, "rate_limited": http.StatusTooManyRequests, "overloaded": http.StatusServiceUnavailable,
	"not_sent": http.StatusBadGateway, "ambiguous": http.StatusBadGateway, "cancelled": http.StatusBadGateway,
	tasks.ClassDeadline: http.StatusGatewayTimeout,
}

// taskProblem is the same each time: a task that has failed for good stays so, and only another key is new work.
func taskProblem(task tasks.Task) *problem {
	if task.Status == tasks.StatusCancelled {
		p := newProblem(http.StatusGone, "cancelled", "The task was cancelled", "the task of this key was cancelled; send a new key for new work")
		p.TaskID, p.final = task.ID.String(), true
		return p
	}
	f := tasks.Failure{Class: tasks.ClassInternal, Message: "no failure was recorded"}
	if task.Failure != nil {
		f = *task.Failure
	}
	status, known := statusOf[f.Class]
	if !known {
		status = http.StatusInternalServerError
	}
	p := newProblem(status, f.Class, "The task has failed", f.Message+" (for good, after "+count(task.Attempts, "attempt")+"; send a new key for new work)")
	p.TaskID, p.final = task.ID.String(), true
	return p
}

var errChatWait = errors.New("the wait for a chat completion is over")
