package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ErrUntranslatable is why a chat request cannot be sent by an adapter of another language: something in it has no
// equivalent there, and nothing is left out.
var ErrUntranslatable = errors.New("the chat request has no equivalent at this provider")

// Member is one member of a JSON object, its value as it came.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members reads an object in its order. Nil, or nothing, has none. A name that is there twice is an error, since readers
// differ in which of the two they mean.
func Members(object json.RawMessage) ([]Member, error) {
	if len(bytes.TrimSpace(object)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var out []Member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := Member{Name: name.(string)} // the decoder takes no other key
		if slices.ContainsFunc(out, func(o Member) bool { return o.Name == m.Name }) {
			return nil, fmt.Errorf("the member %q is there twice", CleanText(m.Name))
		}
		if err := d.Decode(&m.Value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON object")
	}
	return out, nil
}

// OffersTools reports whether an answer to the request may call tools.
func (c *Chat) OffersTools() bool {
	if c == nil {
		return false
	}
	var params struct {
		Tools []json.RawMessage `json:"tools"`
	}
	return json.Unmarshal(c.Params, &params) == nil && len(params.Tools) > 0
}

// ChatMessage is one message of a chat request that is text alone.
type ChatMessage struct {
	Role string // system, developer, user or assistant
	Text string
}

// Texts are the messages of a request that holds nothing but text. ErrUntranslatable names what else there is.
func (c *Chat) Texts() ([]ChatMessage, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(c.Messages, &raw); err != nil {
		return nil, fmt.Errorf("%w: its messages cannot be read", ErrUntranslatable)
	}
	out := make([]ChatMessage, 0, len(raw))
	for i, r := range raw {
		m, err := textMessage(r)
		if err != nil {
			return nil, fmt.Errorf("%w: messages[%d]%w", ErrUntranslatable, i, err)
		}
		out = append(out, m)
	}
	return out, nil
}

func textMessage(raw json.RawMessage) (ChatMessage, error) {
	var m ChatMessage
	members, err := Members(raw)
	if err != nil {
		return m, errors.New(" is not an object")
	}
	for _, member := range members {
		switch {
		case string(member.Value) == "null", string(member.Value) == "[]":
		case member.Name == "role":
			if json.Unmarshal(member.Value, &m.Role) != nil || !slices.Contains([]string{"system", "developer", "user", "assistant"}, m.Role) {
				return m, errors.New(".role is not one of a text")
			}
		case member.Name == "content":
			if m.Text, err = textContent(member.Value); err != nil {
				return m, err
			}
		default:
			return m, fmt.Errorf(".%s is more than text", label(member.Name))
		}
	}
	m.Text = CleanText(m.Text)
	return m, nil
}

// textContent takes a string, or a list of parts that are text.
func textContent(raw json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", errors.New(".content is neither a text nor a list of parts")
	}
	for _, p := range parts {
		if p.Type != "text" || p.Text == nil {
			return "", errors.New(".content has a part that is not text")
		}
		text += *p.Text
	}
	return text, nil
}

// Unsendable is the failure of a request that cannot be made. It says what has no equivalent, in our words.
func Unsendable(err error) *Failure {
	f := &Failure{Class: Permanent, Message: "the request cannot be made", Err: err}
	if errors.Is(err, ErrUntranslatable) {
		f.Message += ": " + clip(oneLine(err.Error()), maxMessage)
	}
	return f
}

// hidden are the texts of the messages, for Endpoint.Hide.
func (c *Chat) hidden() []string {
	if c == nil {
		return nil
	}
	var out []string
	d := json.NewDecoder(bytes.NewReader(c.Messages))
	for {
		token, err := d.Token()
		if err != nil {
			return out
		}
		text, ok := token.(string)
		if !ok || len(text) < 8 {
			continue
		}
		if strings.HasPrefix(text, "data:") { // megabytes of an image, for as long as the call lasts
			text = strings.Clone(clip(text, 1<<10))
		}
		out = append(out, text)
	}
}

// FinishCalls is Finish for an answer that may call the tools it was offered. With calls, text may be empty.
func FinishCalls(reason, text string, calls []json.RawMessage, report Report) (Answer, error) {
	// A call that was asked for by name ends with stop, at OpenAI itself.
	row := finishReasons[reason]
	if reason != "tool_calls" && row.finish == "" || len(calls) == 0 {
		return Finish(reason, text, report)
	}
	message := struct {
		Role    string            `json:"role"`
		Content *string           `json:"content"`
		Calls   []json.RawMessage `json:"tool_calls"`
	}{Role: "assistant", Calls: calls}
	if text = CleanText(text); text != "" {
		message.Content = &text
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(message); err != nil {
		return Answer{}, Unfit("the tool calls of the answer are no JSON", report, err)
	}
	kept := row.finish
	if kept == "" {
		kept = reason
	}
	return Answer{Text: text, FinishReason: kept, Message: json.RawMessage(strings.TrimSpace(CleanText(b.String()))), Report: report}, nil
}
