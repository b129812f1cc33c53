package sim

import (
	"encoding/json"
	"errors"
	"iter"
	"net/http"
)

var messages = &protocol{
	idHeader: "Request-Id", prefix: "msg_sim_", parse: parseMessages, body: messagesBody, events: messagesEvents, refusal: messagesError,
	failure: func(_ int64, data []byte) event { return event{name: "error", data: data} },
}

func parseMessages(body []byte) (call, error) {
	var req struct {
		Model    string          `json:"model"`
		System   json.RawMessage `json:"system"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		MaxTokens *int64 `json:"max_tokens"`
		Stream    bool   `json:"stream"`
	}
	switch err := json.Unmarshal(body, &req); {
	case err != nil:
		return call{}, errors.New("the body is not a messages request")
	case req.Model == "":
		return call{}, errors.New("model: Field required")
	case req.MaxTokens == nil:
		return call{}, errors.New("max_tokens: Field required")
	case *req.MaxTokens < 1:
		return call{}, errors.New("max_tokens: must be 1 or more")
	case len(req.Messages) == 0:
		return call{}, errors.New("messages: at least one message is required")
	}
	system, err := contentText(req.System)
	if err != nil {
		return call{}, err
	}
	c := call{model: req.Model, stream: req.Stream, limit: *req.MaxTokens}
	size := 0
	c.hear("system", system, &size)
	for _, m := range req.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			return call{}, err
		}
		if m.Role != "user" && m.Role != "assistant" {
			return call{}, errors.New("messages: a role must be user or assistant")
		}
		c.hear(m.Role, text, &size)
	}
	c.input = tokens(size)
	return c, nil
}

// Answers as they go on the wire.
type (
	messagesAnswer struct {
		ID           string         `json:"id"`
		Type         string         `json:"type"`
		Role         string         `json:"role"`
		Model        string         `json:"model"`
		Content      []contentBlock `json:"content"`
		StopReason   *string        `json:"stop_reason"`
		StopSequence *string        `json:"stop_sequence"`
		Usage        *messagesUsage `json:"usage,omitempty"`
	}
	contentBlock struct {
		Type  string   `json:"type"`
		Text  *string  `json:"text,omitempty"`
		ID    string   `json:"id,omitempty"`
		Name  string   `json:"name,omitempty"`
		Input struct{} `json:"input,omitzero"`
	}
	messagesUsage struct {
		InputTokens   int64 `json:"input_tokens"` // neither read from the cache nor written to it
		CacheCreation int64 `json:"cache_creation_input_tokens"`
		CacheRead     int64 `json:"cache_read_input_tokens"`
		OutputTokens  int64 `json:"output_tokens"`

		OutputDetails thinkingDetails `json:"output_tokens_details"`
	}
	thinkingDetails struct {
		ThinkingTokens int64 `json:"thinking_tokens"`
	}
)

// messagesReasons are the Messages API's words for the ends of an answer.
var messagesReasons = map[string]string{"stop": "end_turn", "length": "max_tokens", "refusal": "refusal", "tool": "tool_use"}

func messagesUsageOf(rep *reply) *messagesUsage {
	if rep.noUsage {
		return nil
	}
	return &messagesUsage{rep.input - rep.cached - rep.cacheWrite, rep.cacheWrite, rep.cached, rep.output, thinkingDetails{rep.reasoning}}
}

// messagesBlock is what the content is, without its text; nil: there is none.
func messagesBlock(rep *reply) *contentBlock {
	empty := ""
	switch {
	case rep.tool:
		return &contentBlock{Type: "tool_use", ID: "toolu_sim_1", Name: "unoffered"}
	case rep.text != "":
		return &contentBlock{Type: "text", Text: &empty}
	}
	return nil
}

func messagesBody(g *generation, _ string) any {
	out := messagesAnswer{
		ID: g.id, Type: "message", Role: "assistant", Model: g.call.model, StopReason: g.rep.reason(messagesReasons),
		Content: []contentBlock{}, Usage: messagesUsageOf(&g.rep),
	}
	if b := messagesBlock(&g.rep); b != nil {
		if b.Text != nil {
			b.Text = &g.rep.text
		}
		out.Content = append(out.Content, *b)
	}
	return out
}

func messagesEvents(g *generation) iter.Seq[event] {
	return func(yield func(event) bool) {
		put := func(kind eventKind, name string, text int, fields map[string]any) bool {
			fields["type"] = name
			return yield(event{kind: kind, name: name, data: fields, text: text})
		}
		start := messagesAnswer{ID: g.id, Type: "message", Role: "assistant", Model: g.call.model, Content: []contentBlock{}}
		if start.Usage = messagesUsageOf(&g.rep); start.Usage != nil {
			start.Usage.OutputTokens = min(g.rep.output, 1)
			if g.rep.earlyUsage {
				*start.Usage = messagesUsage{}
			}
		}
		if !put(kindOpening, "message_start", 0, map[string]any{"message": start}) {
			return
		}
		block := messagesBlock(&g.rep)
		if block != nil && !put(kindFrame, "content_block_start", 0, map[string]any{"index": 0, "content_block": block}) {
			return
		}
		if !put(kindFrame, "ping", 0, map[string]any{}) {
			return
		}
		for p := range split(g.rep.text) {
			delta := map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": p}}
			if !put(kindPiece, "content_block_delta", len(p), delta) {
				return
			}
		}
		if g.rep.tool {
			delta := map[string]any{"index": 0, "delta": map[string]any{"type": "input_json_delta", "partial_json": "{}"}}
			if !put(kindPiece, "content_block_delta", 0, delta) {
				return
			}
		}
		if block != nil && !put(kindClosing, "content_block_stop", 0, map[string]any{"index": 0}) {
			return
		}
		last := map[string]any{"delta": map[string]any{"stop_reason": g.rep.reason(messagesReasons), "stop_sequence": nil}}
		if use := messagesUsageOf(&g.rep); use != nil && g.rep.earlyUsage {
			last["usage"] = use
		} else if use != nil {
			last["usage"] = map[string]any{"output_tokens": use.OutputTokens, "output_tokens_details": use.OutputDetails}
		}
		if !put(kindClosing, "message_delta", 0, last) {
			return
		}
		put(kindMarker, "message_stop", 0, map[string]any{})
	}
}

// messagesErrors are the types Anthropic documents for its statuses.
var messagesErrors = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusPaymentRequired: "billing_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusConflict: "conflict_error", http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests: "rate_limit_error", http.StatusServiceUnavailable: "overloaded_error", http.StatusGatewayTimeout: "timeout_error",
	529: "overloaded_error",
}

func messagesError(status int, message string) []byte {
	kind := messagesErrors[status]
	switch {
	case kind != "":
	case status >= 500:
		kind = "api_error"
	default:
		kind = "invalid_request_error"
	}
	b, _ := json.Marshal(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}})
	return b
}
