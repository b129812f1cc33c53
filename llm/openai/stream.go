package openai

import (
	"encoding/json"
	"strings"

	"github.com/fencepost/fencepost/llm"
)

// chunk is one event of a stream, read as strictly as chatAnswer is.
type chunk struct {
	ID      json.RawMessage `json:"id"`
	Error   json.RawMessage `json:"error"`
	Model   json.RawMessage `json:"model"`
	Tier    json.RawMessage `json:"service_tier"`
	Choices []struct {
		Index        int             `json:"index"`
		FinishReason *string         `json:"finish_reason"`
		Error        json.RawMessage `json:"error"`
		Delta        *struct {
			Content   *string         `json:"content"`
			Refusal   *string         `json:"refusal"`
			ToolCalls json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
}

// assembly puts the chunks of a stream together to choice 0.
type assembly struct {
	id, model string
	tier      string // as the last chunk that named one has it
	text      strings.Builder
	refused   bool
	finish    string
	usage     *llm.Usage
	unfit     string // why no answer can come of it
	failed    []byte // an error event
	told      func(piece string)
	tools     bool // were offered
	calls     callAssembly
}

// take reads one event. It wants no more after the terminal marker, or when no answer can come of the stream.
func (a *assembly) take(e llm.Event) (more bool) {
	if string(e.Data) == "[DONE]" {
		return false
	}
	var c *chunk
	err := json.Unmarshal(e.Data, &c)
	if c != nil && said(c.Error) || e.Type == "error" {
		a.failed = append([]byte{}, e.Data...)
		return false
	}
	if err != nil || c == nil {
		a.unfit = "the stream holds what is no chunk of a chat completion"
		return false
	}
	if a.id == "" {
		a.id = reported(c.ID)
	}
	if a.model == "" {
		a.model = reported(c.Model)
	}
	if tier := llm.ServiceTier(c.Tier); tier != "" {
		a.tier = tier
	}
	if u := decodeUsage(e.Data); u != nil {
		a.usage = u // the last word counts: some servers send a running count
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		if said(choice.Error) {
			a.failed = wrapped(choice.Error)
			return false
		}
		if d := choice.Delta; d != nil {
			calls := a.tools && said(d.ToolCalls)
			if a.finish != "" && (deref(d.Content) != "" || calls) {
				a.unfit = "the stream goes on behind its finish reason"
				return false
			}
			if calls && !a.calls.add(d.ToolCalls) {
				a.unfit = "the stream holds tool calls that cannot be put together"
				return false
			}
			a.add(deref(d.Content))
			a.refused = a.refused || deref(d.Refusal) != ""
		}
		if choice.FinishReason != nil {
			a.finish = *choice.FinishReason
		}
	}
	return true
}

func (a *assembly) add(piece string) {
	if piece == "" {
		return
	}
	a.text.WriteString(piece)
	if a.told != nil {
		a.told(llm.CleanText(piece))
	}
}

// answer judges what came of the stream. err is the failure of the wire, if any.
func (a *assembly) answer(resp llm.Response, wire llm.Wire, err *llm.Failure, hide ...string) (llm.Answer, error) {
	report := llm.Report{WireRequests: wire.Requests, RequestID: llm.RequestID(resp.Header), Model: a.model, Usage: a.usage}
	if report.RequestID == "" {
		report.RequestID = a.id
	}
	if u := a.usage; u != nil && !strings.HasPrefix(u.Tier, a.tier) {
		u.Tier = a.tier + u.Tier // the chunk with the counts did not repeat it
	}
	unfit := func(why string) (llm.Answer, error) {
		f := llm.Unfit(why, report, errNotCompletion)
		f.Status = resp.Status
		return llm.Answer{}, f
	}
	switch {
	case err != nil:
		err.Status, err.Report = resp.Status, report
		return llm.Answer{}, err
	case a.failed != nil:
		output := a.text.Len() > 0 || len(a.calls) > 0 || a.refused || a.finish != "" || a.usage != nil
		return llm.Answer{}, llm.RefusedInStream(a.failed, resp.Status, output, report, hide...)
	case a.unfit != "":
		return unfit(a.unfit)
	}
	if a.refused && a.finish == "stop" {
		a.finish = "refusal"
	}
	if len(a.calls) > 0 {
		calls, ok := a.calls.whole()
		if !ok {
			return unfit("the stream holds tool calls that are not whole")
		}
		return llm.FinishCalls(a.finish, a.text.String(), calls, report)
	}
	return llm.Finish(a.finish, a.text.String(), report)
}
