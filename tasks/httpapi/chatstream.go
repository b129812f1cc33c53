package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/fencepost/fencepost/tasks"
)

// chatStream is a chat completion that is sent as it is made. Nothing is sent before there is something to say, so that
// an early failure has its own status, which SDKs understand.
type chatStream struct {
	*door
	out     *stream // nil: nothing was sent
	silent  bool    // the first event of the watch was seen
	sent    strings.Builder
	void    bool // another attempt has taken over: its tokens are not the continuation of what was sent
	created int64
	model   string
	err     error // instead of an answer
}

func (d *door) stream() (int, error) {
	ctx, cancel := context.WithTimeoutCause(d.c.r.Context(), d.s.limits.MaxChatWait, errChatWait)
	defer cancel()
	cs := &chatStream{door: d}
	ended := false
	err := d.s.watch(ctx, d.c.workspace, d.result.TaskID, cursor{}, func(e event) bool {
		more := cs.see(e)
		ended = ended || e.kind == eventReply || e.kind == eventError
		return more
	})
	switch {
	case cs.err != nil:
		err = cs.err
	case ended:
		return http.StatusOK, nil
	case errors.Is(err, errDraining):
		err = d.stopping()
	case err != nil:
		err = d.unread(err)
	default:
		err = d.unfinished() // or the client went away, and hears nothing of it
	}
	if cs.out == nil {
		return 0, err
	}
	p := asProblem(err)
	d.s.metrics.problem(p.Code)
	d.s.errors.note(d.c.r.Context(), p, "POST /v1/chat/completions", requestID(d.c.r.Header))
	cs.out.send("", "", viewChatError(p))
	return http.StatusOK, nil
}

// see takes one event of the watch, and says whether it wants more.
func (cs *chatStream) see(e event) bool {
	switch e.kind {
	case eventAlive:
		if !cs.silent { // at once, and no silence yet
			cs.silent = true
			return true
		}
		return cs.begin(tasks.Task{}) && cs.out.comment("")
	case eventToken:
		if cs.void {
			return true
		}
		return cs.begin(tasks.Task{}) && cs.say(e.text)
	case eventReset:
		cs.void = cs.void || cs.sent.Len() > 0
	case eventReply:
		cs.end(*e.task)
	case eventError:
		if cs.out == nil {
			sayKey(cs.c.w.Header(), cs.result, cs.replayed, *e.task)
		}
		cs.err = taskProblem(*e.task)
	}
	return true
}

// begin sends the headers and the role. task is the zero value while it goes on.
func (cs *chatStream) begin(task tasks.Task) bool {
	if cs.out != nil {
		return true
	}
	sayKey(cs.c.w.Header(), cs.result, cs.replayed, task)
	if cs.created = created(cs.result); task.Reply != nil {
		cs.model = task.Reply.Model
	}
	if cs.model == "" {
		if cs.model = cs.req.model; cs.model == "" {
			cs.model = cs.s.defaults.Model
		}
	}
	cs.out = newStream(cs.c.w)
	empty := ""
	return cs.chunk(deltaView{Role: "assistant", Content: &empty}, nil)
}

// created is when the task was made: when its answer is saved is not known at its first token.
func created(result tasks.Submitted) int64 {
	seconds, _ := result.TaskID.Time().UnixTime()
	return seconds
}

func (cs *chatStream) say(text string) bool {
	if text == "" {
		return true
	}
	cs.sent.WriteString(text)
	return cs.chunk(deltaView{Content: &text}, nil)
}

func (cs *chatStream) chunk(delta deltaView, finish *string) bool {
	v := chunkView{ID: completionID(cs.result.TaskID), Object: "chat.completion.chunk", Created: cs.created, Model: cs.model,
		Choices: []chunkChoice{{Delta: delta, FinishReason: finish}}}
	if cs.req.includeUsage {
		v.Usage = json.RawMessage("null")
	}
	return cs.out.send("", "", v)
}

// end sends what is left of the saved reply. What was sent must be its beginning: the tokens of two attempts never make
// one answer.
func (cs *chatStream) end(task tasks.Task) {
	rest, ok := strings.CutPrefix(task.Reply.Text, cs.sent.String())
	if !ok {
		p := newProblem(http.StatusConflict, "attempt_replaced", "Another attempt has taken over",
			"the saved reply is another attempt's than what was streamed; repeat with the same key to get all of it")
		p.retryAfter, p.TaskID = 1, task.ID.String()
		cs.err = p
		return
	}
	var usage *chatUsage
	if cs.req.includeUsage {
		var err error
		if usage, err = cs.s.chatUsage(cs.c, task); err != nil {
			cs.err = cs.unread(err)
			return
		}
	}
	if !cs.begin(task) {
		return
	}
	cs.model = task.Reply.Model
	if !cs.say(rest) {
		return
	}
	if calls := streamedCalls(task.Reply.Message); len(calls) > 0 && !cs.chunk(deltaView{Calls: calls}, nil) {
		return
	}
	if !cs.chunk(deltaView{}, &task.Reply.FinishReason) {
		return
	}
	if usage != nil {
		raw, _ := json.Marshal(usage) // numbers have a JSON form
		if !cs.out.send("", "", chunkView{ID: completionID(task.ID), Object: "chat.completion.chunk", Created: cs.created, Model: cs.model,
			Choices: []chunkChoice{}, Usage: raw}) {
			return
		}
	}
	cs.out.send("", "", "[DONE]")
}
