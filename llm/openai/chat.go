package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fencepost/fencepost/llm"
)

// reserved are what the adapter says itself: a request that says it, too, would be another one than was counted.
var reserved = []string{"model", "messages", "stream", "stream_options", "n", "store"}

var errReserved = errors.New("openai: a parameter that is the adapter's own")

// encodeChat sends what came, byte for byte.
func (c chat) encodeChat(req llm.Request, stream bool) ([]byte, error) {
	params, err := llm.Members(req.Chat.Params)
	if err != nil {
		return nil, fmt.Errorf("openai: chat params: %w", err)
	}
	has := func(name string) bool {
		return slices.ContainsFunc(params, func(m llm.Member) bool { return m.Name == name })
	}
	model, err := json.Marshal(req.Model)
	if err != nil {
		return nil, err
	}
	var messages []json.RawMessage
	if json.Unmarshal(req.Chat.Messages, &messages) != nil || len(messages) == 0 {
		return nil, errors.New("openai: chat messages are not a list")
	}
	var b bytes.Buffer
	put := func(name string, value []byte) {
		sep := byte(',')
		if b.Len() == 0 {
			sep = '{'
		}
		b.WriteByte(sep)
		quoted, _ := json.Marshal(name) // a string has a JSON form
		b.Write(quoted)
		b.WriteByte(':')
		b.Write(value)
	}
	put("model", model)
	put("messages", req.Chat.Messages)
	if c.stored && !has("metadata") {
		params = append(params, llm.Member{Name: "metadata", Value: json.RawMessage("{}")})
	}
	for _, m := range params {
		switch {
		case slices.Contains(reserved, m.Name):
			return nil, fmt.Errorf("%w: %s", errReserved, m.Name)
		case m.Name == "max_completion_tokens" && c.legacy && !has("max_tokens"):
			m.Name = "max_tokens"
		case m.Name == "metadata" && c.stored:
			var metadata map[string]string
			if err := json.Unmarshal(m.Value, &metadata); err != nil {
				return nil, fmt.Errorf("openai: metadata: %w", err)
			}
			if metadata == nil {
				metadata = make(map[string]string)
			}
			metadata[opKey] = req.Op
			if m.Value, err = json.Marshal(metadata); err != nil {
				return nil, err
			}
		}
		put(m.Name, m.Value)
	}
	if c.stored {
		put("store", []byte("true"))
	}
	if stream {
		put("stream", []byte("true"))
		if !c.noUsage {
			put("stream_options", []byte(`{"include_usage":true}`))
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
