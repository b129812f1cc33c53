package sim

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

var messages = &protocol{idHeader: "Request-Id", parse: parseMessages, body: messagesBody, stream: messagesStream, refusal: messagesError}

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
	size := len(system)
	for _, m := range req.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			return call{}, err
		}
		size += len(text)
		switch m.Role {
		case "user":
			c.content = text
		case "assistant":
		default:
			return call{}, errors.New("messages: a role must be user or assistant")
		}
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
		Usage        messagesUsage  `json:"usage"`
	}
	contentBlock struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	messagesUsage struct {
		InputTokens   int64 `json:"input_tokens"`
		CacheCreation int64 `json:"cache_creation_input_tokens"`
		CacheRead     int64 `json:"cache_read_input_tokens"`
		OutputTokens  int64 `json:"output_tokens"`
	}
)

func stopReason(rep reply) *string {
	s := "end_turn"
	if rep.finish == "length" {
		s = "max_tokens"
	}
	return &s
}

func messagesBody(c call, rep reply, n int64) any {
	out := messagesAnswer{
		ID: "msg_sim_" + strconv.FormatInt(n, 10), Type: "message", Role: "assistant", Model: c.model, StopReason: stopReason(rep),
		Content: []contentBlock{}, Usage: messagesUsage{InputTokens: rep.input, OutputTokens: rep.output},
	}
	if rep.text != "" {
		out.Content = append(out.Content, contentBlock{"text", rep.text})
	}
	return out
}

func messagesStream(out *eventWriter, c call, r *rule, rep reply, n int64) {
	event := func(name string, fields map[string]any) {
		fields["type"] = name
		out.event(name, fields)
	}
	start := messagesBody(c, reply{input: rep.input, output: min(rep.output, 1)}, n).(messagesAnswer)
	start.StopReason = nil
	event("message_start", map[string]any{"message": start})
	if rep.text != "" {
		event("content_block_start", map[string]any{"index": 0, "content_block": contentBlock{"text", ""}})
	}
	event("ping", map[string]any{})
	out.text(r, rep.text, func(piece string) {
		event("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": piece}})
	})
	if rep.text != "" {
		event("content_block_stop", map[string]any{"index": 0})
	}
	event("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": stopReason(rep), "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": rep.output},
	})
	out.end()
	event("message_stop", map[string]any{})
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
