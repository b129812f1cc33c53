package tasks

import "encoding/json"

// Chat is what a request through the OpenAI-compatible door said that has no field of its own: it is sent on as it came.
// Request.Content is then the text of its last user message, and no conversation is sent along.
type Chat struct {
	Messages json.RawMessage `json:"messages"`         // an array: all of them
	Params   json.RawMessage `json:"params,omitempty"` // an object: tools, response_format and the like; without model, messages and stream
}
