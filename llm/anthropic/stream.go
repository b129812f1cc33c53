package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/fencepost/fencepost/llm"
)

// event is one event of a stream: the fields of all its kinds.
type event struct {
	Type    *string `json:"type"`
	Message *struct {
		ID    json.RawMessage `json:"id"`
		Model json.RawMessage `json:"model"`
		Usage json.RawMessage `json:"usage"`
	} `json:"message"`
	ContentBlock *block `json:"content_block"`
	Delta        *struct {
		Type       string  `json:"type"`
		Text       *string `json:"text"`
		StopReason *string `json:"stop_reason"`
	} `json:"delta"`
	Usage json.RawMessage `json:"usage"`
}

// assembly puts the events of a stream together.
type assembly struct {
	id, model string
	text      strings.Builder
	open      int // blocks begun and not ended
	output    bool
	stop      string
	counts    usage
	counted   bool // by a message_delta: what message_start says of the output is only a beginning
	started   bool
	ended     bool
	unfit     string // why no answer can come of it
	failed    []byte // an error event
	told      func(piece string)
}

// take reads one event. It wants no more after the terminal marker, or when no answer can come of the stream.
func (a *assembly) take(e llm.Event) (more bool) {
	var v *event
	err := json.Unmarshal(e.Data, &v)
	kind := e.Type
	if v != nil && v.Type != nil {
		kind = *v.Type
	}
	switch {
	case kind == "error" || e.Type == "error":
		a.failed = append([]byte{}, e.Data...)
		return false
	case err != nil || v == nil:
		a.unfit = "the stream holds what is no event of a message"
		return false
	}
	switch kind {
	case "message_start":
		if a.started || v.Message == nil {
			a.unfit = "the stream begins a message twice, or none"
			return false
		}
		a.started = true
		a.id, a.model = reported(v.Message.ID), reported(v.Message.Model)
		a.counts.add(v.Message.Usage)
	case "content_block_start":
		a.open++
		if b := v.ContentBlock; b != nil && b.Type == "text" {
			a.add(deref(b.Text))
		}
	case "content_block_delta":
		a.output = true
		if v.Delta != nil && v.Delta.Type == "text_delta" {
			a.add(deref(v.Delta.Text))
		}
	case "content_block_stop":
		a.open--
	case "message_delta":
		if v.Delta != nil && v.Delta.StopReason != nil {
			a.stop = *v.Delta.StopReason
		}
		a.counts.add(v.Usage)
		a.counted = a.counted || len(v.Usage) > 0 && string(v.Usage) != "null"
	case "message_stop":
		a.ended = true
	}
	return !a.ended && a.unfit == ""
}

func (a *assembly) add(text string) {
	if text != "" && a.stop != "" {
		a.unfit = "the stream goes on behind its stop reason"
	}
	a.output = a.output || text != ""
	a.text.WriteString(text)
	if text != "" && a.unfit == "" && a.told != nil {
		a.told(llm.CleanText(text))
	}
}

// answer judges what came of the stream. err is the failure of the wire, if any.
func (a *assembly) answer(resp llm.Response, wire llm.Wire, err *llm.Failure, hide ...string) (llm.Answer, error) {
	report := llm.Report{WireRequests: wire.Requests, RequestID: llm.RequestID(resp.Header), Model: a.model}
	if report.RequestID == "" {
		report.RequestID = a.id
	}
	if a.counted {
		report.Usage = a.counts.total()
	}
	unfit := func(why string) (llm.Answer, error) {
		f := llm.Unfit(why, report, errNotMessage)
		f.Status = resp.Status
		return llm.Answer{}, f
	}
	whole := a.started && a.stop != "" && a.open == 0
	switch {
	case a.failed != nil:
		return llm.Answer{}, llm.RefusedInStream(a.failed, resp.Status, a.output || a.stop != "", report, hide...)
	case a.unfit != "":
		return unfit(a.unfit)
	case err != nil && !whole:
		err.Status, err.Report = resp.Status, report
		return llm.Answer{}, err
	case !a.started:
		return unfit("the stream holds no message")
	case !whole:
		return unfit("the stream ended without a stop reason or within a block")
	}
	return llm.Finish(a.stop, a.text.String(), report)
}
