package sim

import (
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strconv"
)

var completions = &protocol{
	idHeader: "X-Request-Id", prefix: "chatcmpl-sim-", parse: parseChat, body: chatBody, events: chatEvents, refusal: errorBody,
	failure: func(_ int64, data []byte) event { return event{data: data} },
}

// parseChat reads what is used of a request and ignores the rest, as servers do.
func parseChat(body []byte) (call, error) {
	var req struct {
		Model    string `json:"model"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		MaxTokens           *int64            `json:"max_tokens"`
		MaxCompletionTokens *int64            `json:"max_completion_tokens"`
		Store               bool              `json:"store"`
		Metadata            map[string]string `json:"metadata"`
		Stream              bool              `json:"stream"`
		StreamOptions       struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return call{}, errors.New("the body is not a chat completion request")
	}
	if req.Model == "" {
		return call{}, errors.New("you must provide a model parameter")
	}
	if len(req.Messages) == 0 {
		return call{}, errors.New("messages must not be empty")
	}
	c := call{model: req.Model, stream: req.Stream, usage: req.StreamOptions.IncludeUsage, store: req.Store, metadata: req.Metadata}
	size := 0
	for _, m := range req.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			return call{}, err
		}
		c.hear(m.Role, text, &size)
	}
	c.input, c.params = tokens(size), params(body)
	return c, errors.Join(c.limitTo(req.MaxTokens, req.MaxCompletionTokens), checkMetadata(req.Metadata))
}

// Answers as they go on the wire. Metadata is in those that are asked for later.
type (
	completion struct {
		ID       string            `json:"id"`
		Object   string            `json:"object"`
		Created  int64             `json:"created"`
		Model    string            `json:"model"`
		Choices  []choice          `json:"choices"`
		Usage    *usage            `json:"usage,omitempty"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}
	choice struct {
		Index        int      `json:"index"`
		Message      *message `json:"message,omitempty"`
		Delta        *message `json:"delta,omitempty"`
		LogProbs     *int     `json:"logprobs"`
		FinishReason *string  `json:"finish_reason"`
	}
	message struct {
		Role      string     `json:"role,omitempty"`
		Content   *string    `json:"content,omitempty"`
		Refusal   *string    `json:"refusal,omitempty"`
		ToolCalls []toolCall `json:"tool_calls,omitempty"`
	}
	toolCall struct {
		Index    int    `json:"index"`
		ID       string `json:"id,omitempty"`
		Type     string `json:"type,omitempty"`
		Function struct {
			Name      string `json:"name,omitempty"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
	usage struct {
		PromptTokens     int64         `json:"prompt_tokens"`
		CompletionTokens int64         `json:"completion_tokens"`
		TotalTokens      int64         `json:"total_tokens"`
		PromptDetails    promptDetails `json:"prompt_tokens_details"`
		OutputDetails    outputDetails `json:"completion_tokens_details"`
	}
	promptDetails struct {
		CachedTokens     int64 `json:"cached_tokens"`
		CacheWriteTokens int64 `json:"cache_write_tokens"`
	}
	outputDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	}
)

// chatReasons are Chat Completions' words for the ends of an answer.
var chatReasons = map[string]string{"stop": "stop", "length": "length", "refusal": "stop", "tool": "tool_calls"}

func usageOf(rep *reply) *usage {
	if rep.noUsage {
		return nil
	}
	return &usage{
		rep.input, rep.output, rep.input + rep.output, promptDetails{rep.cached, rep.cacheWrite}, outputDetails{rep.reasoning},
	}
}

// called are the calls of a rule, with what it left open.
func called(calls []toolCall) []toolCall {
	out := slices.Clone(calls)
	for i := range out {
		out[i].Index, out[i].Type = i, "function"
		if out[i].ID == "" {
			out[i].ID = "call_sim_" + strconv.Itoa(i+1)
		}
		if out[i].Function.Arguments == "" {
			out[i].Function.Arguments = "{}"
		}
	}
	return out
}

// calledTool is the tool that nobody offered.
func calledTool() []toolCall {
	t := toolCall{ID: "call_sim_1", Type: "function"}
	t.Function.Name, t.Function.Arguments = "unoffered", "{}"
	return []toolCall{t}
}

func chatBody(g *generation, _ string) any {
	m := &message{Role: "assistant"}
	switch {
	case g.rep.tool:
		m.ToolCalls = calledTool()
	case g.rep.refused:
		m.Refusal = &g.rep.text
	case g.rep.text != "" || len(g.rep.calls) == 0:
		m.Content = &g.rep.text
	}
	if !g.rep.tool {
		m.ToolCalls = g.rep.calls
	}
	return completion{
		ID: g.id, Object: "chat.completion", Created: created, Model: g.call.model, Usage: usageOf(&g.rep),
		Choices: []choice{{Message: m, FinishReason: g.rep.reason(chatReasons)}},
	}
}

// chunk is one event of a stream. Usage is left out unless it was asked for, as the protocol has it.
type chunk = completion

func chatEvents(g *generation) iter.Seq[event] {
	return func(yield func(event) bool) {
		put := func(kind eventKind, text int, choices []choice, u *usage) bool {
			return yield(event{kind: kind, text: text, data: chunk{
				ID: g.id, Object: "chat.completion.chunk", Created: created, Model: g.call.model, Choices: choices, Usage: u,
			}})
		}
		empty := ""
		if !put(kindFrame, 0, []choice{{Delta: &message{Role: "assistant", Content: &empty}}}, nil) {
			return
		}
		if g.rep.earlyUsage && !put(kindFrame, 0, []choice{}, &usage{}) {
			return
		}
		for p := range split(g.rep.text) {
			delta := &message{Content: &p}
			if g.rep.refused {
				delta = &message{Refusal: &p}
			}
			if !put(kindPiece, len(p), []choice{{Delta: delta}}, nil) {
				return
			}
		}
		for _, c := range g.rep.calls {
			for piece := range callPieces(c) {
				if !put(kindPiece, 0, []choice{{Delta: &message{ToolCalls: []toolCall{piece}}}}, nil) {
					return
				}
			}
		}
		if g.rep.tool && !put(kindPiece, 0, []choice{{Delta: &message{ToolCalls: calledTool()}}}, nil) {
			return
		}
		if !put(kindClosing, 0, []choice{{Delta: &message{}, FinishReason: g.rep.reason(chatReasons)}}, nil) {
			return
		}
		if g.call.usage && !g.rep.noUsage && !put(kindClosing, 0, []choice{}, usageOf(&g.rep)) {
			return
		}
		yield(event{kind: kindMarker, data: []byte("[DONE]")})
	}
}

// callPieces are a tool call as a stream has it: who it is, and then its arguments piece by piece.
func callPieces(c toolCall) iter.Seq[toolCall] {
	return func(yield func(toolCall) bool) {
		head := c
		head.Function.Arguments = ""
		if !yield(head) {
			return
		}
		for p := range split(c.Function.Arguments) {
			piece := toolCall{Index: c.Index}
			piece.Function.Arguments = p
			if !yield(piece) {
				return
			}
		}
	}
}

// maxParams bounds what the ledger keeps of a request's parameters, in bytes.
const maxParams = 16 << 10

// params are the members of a request that say neither what was said nor how it is sent; nil: there are none, or too many.
func params(body []byte) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		return nil
	}
	for _, name := range []string{"model", "messages", "stream", "stream_options"} {
		delete(all, name)
	}
	raw, err := json.Marshal(all)
	if err != nil || len(all) == 0 || len(raw) > maxParams {
		return nil
	}
	return raw
}
