package openai

import (
	"encoding/json"
	"errors"

	"github.com/fencepost/fencepost/llm"
)

type chatRequest struct {
	Model               string        `json:"model"`
	Messages            []chatMessage `json:"messages"`
	Temperature         *float64      `json:"temperature,omitempty"`
	MaxCompletionTokens *int          `json:"max_completion_tokens,omitempty"`
	MaxTokens           *int          `json:"max_tokens,omitempty"`
	Stream              bool          `json:"stream,omitempty"`
	StreamOptions       *streamOpts   `json:"stream_options,omitempty"`

	Store    bool              `json:"store,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

type streamOpts struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// chat is how a server wants its requests.
type chat struct {
	legacy  bool // a limit is max_tokens
	noUsage bool // stream_options are not known
	stored  bool
}

func (c chat) encode(req llm.Request, stream bool) ([]byte, error) {
	if req.Chat != nil {
		return c.encodeChat(req, stream)
	}
	turns, err := turns(req)
	if err != nil {
		return nil, err
	}
	out := chatRequest{Model: req.Model, Temperature: req.Temperature, Messages: turns}
	if req.System != "" {
		out.Messages = append([]chatMessage{{"system", llm.CleanText(req.System)}}, out.Messages...)
	}
	if c.legacy {
		out.MaxTokens = req.MaxOutputTokens
	} else {
		out.MaxCompletionTokens = req.MaxOutputTokens
	}
	if stream {
		out.Stream = true
		if !c.noUsage {
			out.StreamOptions = &streamOpts{IncludeUsage: true}
		}
	}
	if c.stored {
		out.Store, out.Metadata = true, map[string]string{opKey: req.Op}
	}
	return json.Marshal(out)
}

// turns are what was said before and the message to answer. A message that says nothing is left out: some servers refuse
// the whole for it.
func turns(req llm.Request) ([]chatMessage, error) {
	out := make([]chatMessage, 0, len(req.History)+2)
	for _, m := range req.History {
		if m.Role != llm.RoleUser && m.Role != llm.RoleAssistant {
			return nil, errRole
		}
		if text := llm.CleanText(m.Text); text != "" {
			out = append(out, chatMessage{string(m.Role), text})
		}
	}
	return append(out, chatMessage{string(llm.RoleUser), llm.CleanText(req.Content)}), nil
}

var errRole = errors.New("openai: a message of the history is neither the user's nor the assistant's")

// chatAnswer reads what must be right strictly, and what is only reported (id, model, usage) as raw text: a server that
// gets a report wrong has still answered.
type chatAnswer struct {
	ID      json.RawMessage `json:"id"`
	Error   json.RawMessage `json:"error"`
	Model   json.RawMessage `json:"model"`
	Choices []struct {
		Error        json.RawMessage `json:"error"`
		FinishReason *string         `json:"finish_reason"`
		Message      *struct {
			Content   *string         `json:"content"`
			Refusal   *string         `json:"refusal"`
			ToolCalls json.RawMessage `json:"tool_calls"`
		} `json:"message"`
	} `json:"choices"`
}

// decodeAnswer judges the body of a 2xx answer. tools: they were offered, and may be called. hide are texts that must not
// appear in a failure's message.
func decodeAnswer(resp llm.Response, wire llm.Wire, tools bool, hide ...string) (llm.Answer, error) {
	report := llm.Report{
		WireRequests: wire.Requests,
		RequestID:    llm.RequestID(resp.Header),
		Usage:        decodeUsage(resp.Body),
	}
	unfit := func(why string, err error) (llm.Answer, error) {
		f := llm.Unfit(why, report, err)
		f.Status = resp.Status
		return llm.Answer{}, f
	}
	var body *chatAnswer
	if err := json.Unmarshal(resp.Body, &body); err != nil {
		// The error of a wrong type still leaves the rest decoded: an error member says more than it.
		if said := llm.DecodeError(resp.Body); said.Spoken {
			return llm.Answer{}, llm.RefusedInStream(resp.Body, resp.Status, false, report, hide...)
		}
		return unfit("the answer is not a chat completion", errNotCompletion)
	}
	if body == nil {
		return unfit("the answer is null", errNotCompletion)
	}
	report.Model = reported(body.Model)
	if report.RequestID == "" {
		report.RequestID = reported(body.ID)
	}
	output := len(body.Choices) > 0 || report.Usage != nil && report.Usage.OutputTokens > 0
	if said(body.Error) {
		return llm.Answer{}, llm.RefusedInStream(resp.Body, resp.Status, output, report, hide...)
	}
	if output && len(body.Choices) > 0 && said(body.Choices[0].Error) {
		begun := body.Choices[0].Message != nil && deref(body.Choices[0].Message.Content) != ""
		return llm.Answer{}, llm.RefusedInStream(wrapped(body.Choices[0].Error), resp.Status, begun, report, hide...)
	}
	if len(body.Choices) == 0 || body.Choices[0].Message == nil {
		return unfit("the answer has no message", errNotCompletion)
	}
	choice := body.Choices[0]
	reason, text := deref(choice.FinishReason), deref(choice.Message.Content)
	if deref(choice.Message.Refusal) != "" && reason == "stop" {
		reason = "refusal"
	}
	if tools && said(choice.Message.ToolCalls) {
		calls, ok := toolCalls(choice.Message.ToolCalls)
		if !ok {
			return unfit("the tool calls of the answer cannot be read", errNotCompletion)
		}
		return llm.FinishCalls(reason, text, calls, report)
	}
	return llm.Finish(reason, text, report)
}

var errNotCompletion = errors.New("openai: not a chat completion")

// said reports whether a member is there and is not null.
func said(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// wrapped makes an error member the whole of a body.
func wrapped(member json.RawMessage) []byte {
	return append(append([]byte(`{"error":`), member...), '}')
}

// reported returns a short text of the server's, empty when it is none.
func reported(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || len(s) > 200 {
		return ""
	}
	return llm.CleanText(s)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
