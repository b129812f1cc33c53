package openai

import (
	"encoding/json"
	"strings"

	"github.com/fencepost/fencepost/llm"
)

// event is one event of a response's stream: the fields of all its kinds that are read.
type event struct {
	Type     *string   `json:"type"`
	Sequence *int64    `json:"sequence_number"`
	Response *response `json:"response"`
	Delta    *string   `json:"delta"`
}

// events puts the events of a response's stream together. Its last event repeats the whole, and that alone is judged:
// the pieces are for those who watch.
type events struct {
	told  func(piece string)
	begun func(id string) error // told the id as soon as it is known; an error ends the stream

	id     string
	last   int64 // sequence number of the last event, to go on behind it
	seen   int   // events taken
	output bool
	final  *response
	unfit  string // why no answer can come of it
	failed []byte // an error event
	err    error  // of begun
}

// take reads one event. It wants no more after the terminal one, or when no answer can come of the stream.
func (a *events) take(e llm.Event) (more bool) {
	if string(e.Data) == "[DONE]" {
		return false
	}
	var v *event
	// The texts of some events are no strings: only what is asked of an event below must be well.
	err := json.Unmarshal(e.Data, &v)
	kind := e.Type
	if v != nil && v.Type != nil {
		kind = *v.Type
	}
	switch {
	case kind == "error" || llm.DecodeError(e.Data).Spoken:
		a.failed = append([]byte{}, e.Data...)
		return false
	case v == nil || err != nil && (!json.Valid(e.Data) || v.Response != nil || kind == "response.output_text.delta"):
		a.unfit = "the stream holds what is no event of a response"
		return false
	}
	a.seen++
	if v.Sequence != nil {
		a.last = *v.Sequence
	}
	if r := v.Response; r != nil && a.id == "" {
		if a.id = r.id(); a.id != "" && a.begun != nil {
			if a.err = a.begun(a.id); a.err != nil {
				return false
			}
		}
	}
	switch kind {
	case "response.output_text.delta":
		if piece := deref(v.Delta); piece != "" {
			a.output = true
			if a.told != nil {
				a.told(llm.CleanText(piece))
			}
		}
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		a.final = v.Response
		if want := strings.TrimPrefix(kind, "response."); a.final == nil || deref(a.final.Status) != want {
			a.final, a.unfit = nil, "the stream ends with what is no response"
		}
		return false
	}
	return true
}

// answer judges what came of the stream. f is the failure of the wire, if any.
func (a *events) answer(status int, report llm.Report, f *llm.Failure, hide ...string) (llm.Answer, error) {
	if report.RequestID == "" {
		report.RequestID = a.id
	}
	switch {
	case a.final != nil:
		answer, err := a.final.judge(status, report, hide...)
		if err == nil || !a.output || len(a.final.Output) > 0 {
			return answer, err
		}
		if rejected, ok := err.(*llm.Failure); ok && rejected.Class == llm.RejectedOutput {
			return llm.Answer{}, unfit("the last event holds nothing of the text before it", status, rejected.Report)
		}
		return answer, err
	case f != nil:
		f.Status, f.Report = status, report
		return llm.Answer{}, f
	case a.failed != nil:
		return llm.Answer{}, llm.RefusedInStream(a.failed, status, a.output, report, hide...)
	case a.unfit != "":
		return llm.Answer{}, unfit(a.unfit, status, report)
	}
	return llm.Answer{}, unfit("the stream ended without its terminal event", status, report)
}
