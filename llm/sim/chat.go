package sim

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/fencepost/fencepost/llm"
)

// echoBytes bounds how much of a message the answer repeats.
const echoBytes = 256

// chatRequest is what is read of a request; the rest is ignored, as servers do.
type chatRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	MaxTokens           *int64 `json:"max_tokens"`
	MaxCompletionTokens *int64 `json:"max_completion_tokens"`
	Stream              bool   `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// call is a request as the engine sees it, over HTTP or in process.
type call struct {
	model   string
	content string // the last user message
	input   int64  // tokens of all messages
	limit   int64  // of output tokens, 0: none
	stream  bool
	usage   bool // asked for in a stream
}

func parseCall(body []byte) (call, error) {
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return call{}, errors.New("the body is not a chat completion request")
	}
	if req.Model == "" {
		return call{}, errors.New("you must provide a model parameter")
	}
	if len(req.Messages) == 0 {
		return call{}, errors.New("messages must not be empty")
	}
	c := call{model: req.Model, stream: req.Stream, usage: req.StreamOptions.IncludeUsage}
	size := 0
	for _, m := range req.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			return call{}, err
		}
		size += len(text)
		if m.Role == "user" {
			c.content = text
		}
	}
	c.input = tokens(size)
	for _, limit := range [...]*int64{req.MaxTokens, req.MaxCompletionTokens} {
		if limit == nil {
			continue
		}
		if *limit < 1 {
			return call{}, errors.New("the limit of tokens must be 1 or more")
		}
		c.limit = *limit
	}
	return c, nil
}

// contentText takes a string, or the list of parts that newer clients send.
func contentText(raw json.RawMessage) (string, error) {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s, nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", errors.New("a message's content must be a string or a list of parts")
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

// tokens is the simulated model's tokenizer: four bytes are one.
func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

// reply is what the model says to a call.
type reply struct {
	text   string
	finish string
	input  int64
	output int64
}

// say makes the answer to c under r: the same one for the same request.
func say(c call, r *rule) reply {
	out := reply{finish: "stop", input: c.input}
	switch {
	case r.Do == doEmpty:
	case r.Text != nil:
		out.text = llm.CleanText(*r.Text)
	default:
		out.text = "echo: " + cut(c.content, echoBytes)
	}
	if c.limit > 0 && tokens(len(out.text)) > c.limit {
		out.text, out.finish = cut(out.text, int(4*c.limit)), "length"
	}
	out.output = tokens(len(out.text))
	if r.InputTokens != nil {
		out.input = *r.InputTokens
	}
	if r.OutputTokens != nil {
		out.output = *r.OutputTokens
	}
	return out
}

// cut keeps at most n bytes, whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// billed returns the tokens a call costs, by the rule of the package's doc.
func billed(rep reply, r *rule) (in, out int64) {
	free := r.Do == doHang || r.Do == doStatus
	if !free || r.InputTokens != nil {
		in = rep.input
	}
	if !free || r.OutputTokens != nil {
		out = rep.output
	}
	return in, out
}
