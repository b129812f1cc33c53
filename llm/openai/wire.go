package openai

import (
	"encoding/json"
	"fmt"
	"strconv"

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
}

type streamOpts struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func encode(req llm.Request, legacy, stream bool) ([]byte, error) {
	out := chatRequest{Model: req.Model, Temperature: req.Temperature, Messages: make([]chatMessage, 0, 2)}
	if req.System != "" {
		out.Messages = append(out.Messages, chatMessage{"system", llm.CleanText(req.System)})
	}
	out.Messages = append(out.Messages, chatMessage{"user", llm.CleanText(req.Content)})
	if legacy {
		out.MaxTokens = req.MaxOutputTokens
	} else {
		out.MaxCompletionTokens = req.MaxOutputTokens
	}
	if stream {
		out.Stream, out.StreamOptions = true, &streamOpts{IncludeUsage: true}
	}
	return json.Marshal(out)
}

// chatAnswer reads what must be right strictly, and what is only reported (id, model, usage) as raw text: a server that
// gets a report wrong has still answered.
type chatAnswer struct {
	ID      json.RawMessage `json:"id"`
	Error   json.RawMessage `json:"error"`
	Model   json.RawMessage `json:"model"`
	Choices []struct {
		FinishReason *string `json:"finish_reason"`
		Message      *struct {
			Content   *string         `json:"content"`
			Refusal   *string         `json:"refusal"`
			ToolCalls json.RawMessage `json:"tool_calls"`
		} `json:"message"`
	} `json:"choices"`
}

// decodeAnswer judges the body of a 2xx answer. hide are texts that must not appear in a failure's message.
func decodeAnswer(resp llm.Response, wire llm.Wire, hide ...string) (llm.Answer, error) {
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
			return unfit("status "+strconv.Itoa(resp.Status)+" with an error: "+llm.Extract(said.Message, hide...), nil)
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
	if len(body.Error) > 0 && string(body.Error) != "null" {
		said := llm.DecodeError(resp.Body)
		return unfit("status "+strconv.Itoa(resp.Status)+" with an error: "+llm.Extract(said.Message, hide...), nil)
	}
	if len(body.Choices) == 0 || body.Choices[0].Message == nil {
		return unfit("the answer has no message", errNotCompletion)
	}
	choice := body.Choices[0]
	reason, text := deref(choice.FinishReason), deref(choice.Message.Content)
	if deref(choice.Message.Refusal) != "" && reason == "stop" {
		reason = "refusal"
	}
	return llm.Finish(reason, text, report)
}

var errNotCompletion = fmt.Errorf("openai: not a chat completion")

// decodeUsage returns what was billed, nil when it is missing, incomplete, negative or not a number. Details that cannot
// be read are left out: the two counts still stand, and price the call at the plain rates.
func decodeUsage(body []byte) *llm.Usage {
	var top struct {
		Usage struct {
			Prompt            *int64          `json:"prompt_tokens"`
			Completion        *int64          `json:"completion_tokens"`
			PromptDetails     json.RawMessage `json:"prompt_tokens_details"`
			CompletionDetails json.RawMessage `json:"completion_tokens_details"`
			Total             json.RawMessage `json:"total_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(body, &top) != nil {
		return nil
	}
	in, out := top.Usage.Prompt, top.Usage.Completion
	if in == nil || out == nil || *in < 0 || *out < 0 {
		return nil
	}
	u := &llm.Usage{InputTokens: *in, OutputTokens: *out}
	// Cached tokens are inside prompt_tokens here. A server that reports more of them than prompt tokens is not believed
	// beyond those: the kinds must add up to what it billed.
	u.CachedInputTokens = min(detail(top.Usage.PromptDetails, "cached_tokens"), u.InputTokens)
	u.InputTokens -= u.CachedInputTokens
	u.CacheWriteTokens = min(detail(top.Usage.PromptDetails, "cache_write_tokens"), u.InputTokens)
	u.InputTokens -= u.CacheWriteTokens
	reasoning := detail(top.Usage.CompletionDetails, "reasoning_tokens")
	// Some servers count reasoning beside completion_tokens; the total tells.
	if total := count(top.Usage.Total); reasoning > 0 && total > *in && total-*in-*out == reasoning {
		u.OutputTokens += reasoning
	}
	u.ReasoningTokens = min(reasoning, u.OutputTokens)
	return u
}

// detail is a count in an object of counts, 0 when it is not there.
func detail(raw json.RawMessage, name string) int64 {
	var counts map[string]json.RawMessage
	if json.Unmarshal(raw, &counts) != nil {
		return 0
	}
	return count(counts[name])
}

// count is a number of tokens, 0 when it is none.
func count(raw json.RawMessage) int64 {
	var n int64
	if json.Unmarshal(raw, &n) != nil {
		return 0
	}
	return max(n, 0)
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
