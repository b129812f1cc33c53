package tasks

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Chat is what a request through the OpenAI-compatible door said that has no field of its own: it is sent on as it came, byte for byte, on each attempt, but that invalid UTF-8 becomes U+FFFD.
// Request.Content is then the text of its last user message, and no conversation is sent along.
type Chat struct {
	Messages json.RawMessage `json:"messages"`         // an array: all of them
	Params   json.RawMessage `json:"params,omitempty"` // an object: tools, response_format and the like; without model, messages and stream
}

// check says, wrapping ErrInvalid, why c cannot be sent on.
func (c *Chat) check() error {
	switch {
	case c == nil:
		return nil
	case len(c.Messages)+len(c.Params) > MaxInputText:
		return fmt.Errorf("%w: chat has more than %d bytes", ErrInvalid, MaxInputText)
	case !isJSON(c.Messages, '['):
		return fmt.Errorf("%w: chat messages are not an array in JSON", ErrInvalid)
	case len(c.Params) > 0 && !isJSON(c.Params, '{'):
		return fmt.Errorf("%w: chat params are not an object in JSON", ErrInvalid)
	}
	return nil
}

// isJSON reports whether b is JSON of the kind that begins with first.
func isJSON(b []byte, first byte) bool {
	return json.Valid(b) && bytes.TrimLeft(b, " \t\r\n")[0] == first
}
