package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fencepost/fencepost/tasks"
)

// maxChatBody bounds the body of a chat completion: what a task can carry, and the rest.
const maxChatBody = tasks.MaxInputText + 64<<10

// chatCall is the body of POST /v1/chat/completions.
type chatCall struct {
	model    string
	content  string // of the last message of the user's
	chat     tasks.Chat
	same     tasks.Chat // its canonical form, for the fingerprint
	limit    *int       // of output tokens
	metadata map[string]string

	stream       bool
	includeUsage bool
}

// readChat reads and checks a body. w is told when the body is cut off, so that the connection is closed.
func readChat(w http.ResponseWriter, r *http.Request) (*chatCall, *problem) {
	if p := checkMediaType(r.Header); p != nil {
		return nil, p
	}
	if r.ContentLength > maxChatBody {
		return nil, tooLarge("body", maxChatBody)
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf) // what is decoded are copies
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxChatBody)); err != nil {
		var tooMany *http.MaxBytesError
		if errors.As(err, &tooMany) {
			return nil, tooLarge("body", maxChatBody)
		}
		p := invalidField("body", "could not be read to its end")
		p.cause = err
		return nil, p
	}
	return parseChat(buf.Bytes())
}

// parseChat reads exactly one request. What it cannot keep safe it refuses by name, and drops only what asks for nothing.
func parseChat(body []byte) (*chatCall, *problem) {
	switch {
	case !utf8.Valid(body):
		return nil, invalidField("body", "is not valid UTF-8")
	case loneSurrogate(body):
		return nil, invalidField("body", `has half a surrogate pair (\ud800 to \udfff)`)
	case escapedNUL(body):
		return nil, invalidField("body", `has a NUL character (\u0000)`)
	}
	members, err := membersOf(body)
	if err != nil {
		return nil, invalidField("body", "is %s", err)
	}
	c := new(chatCall)
	var params bytes.Buffer
	for _, m := range members {
		kept, p := c.take(m)
		if p != nil {
			return nil, p
		}
		if !kept {
			continue
		}
		sep := byte(',')
		if params.Len() == 0 {
			sep = '{'
		}
		params.WriteByte(sep)
		params.WriteString(`"` + m.name + `":`) // a name of the table needs no escapes
		params.Write(m.value)
	}
	if c.chat.Messages == nil {
		return nil, invalidField("messages", "is missing")
	}
	if params.Len() > 0 {
		params.WriteByte('}')
		c.chat.Params = params.Bytes()
	}
	if len(c.chat.Messages)+len(c.chat.Params) > tasks.MaxInputText {
		return nil, tooLarge("messages", tasks.MaxInputText)
	}
	for _, f := range []struct {
		name     string
		from, to *json.RawMessage
	}{{"messages", &c.chat.Messages, &c.same.Messages}, {"body", &c.chat.Params, &c.same.Params}} {
		if *f.from == nil {
			continue
		}
		if *f.to, err = canonical(*f.from); err != nil {
			return nil, invalidField(f.name, "cannot be compared with a repeat: %s", tasks.Cut(err.Error(), 200))
		}
	}
	return c, nil
}

// take reads one member of the body. kept: it is sent on.
func (c *chatCall) take(m member) (kept bool, p *problem) {
	if isNull(m.value) && m.name != "messages" {
		if _, known := chatPassed[m.name]; known || chatOwn[m.name] || chatNeutral[m.name].why != "" {
			return false, nil // as if it were not there
		}
	}
	switch m.name {
	case "model":
		if json.Unmarshal(m.value, &c.model) != nil {
			return false, invalidField("model", "is not a text")
		}
		return false, checkText("model", c.model, maxModel)
	case "messages":
		c.chat.Messages = m.value
		c.content, p = chatMessages(m.value)
		return false, p
	case "stream":
		if json.Unmarshal(m.value, &c.stream) != nil {
			return false, invalidField("stream", "is neither true nor false")
		}
		return false, nil
	case "stream_options":
		return false, c.streamOptions(m.value)
	case "metadata":
		// It names the task, and is no input of the answer.
		if json.Unmarshal(m.value, &c.metadata) != nil {
			return false, invalidField("metadata", "is not an object of texts")
		}
		return false, (&message{Metadata: c.metadata}).checkMetadata()
	}
	if only, ok := chatNeutral[m.name]; ok {
		same, err := canonical(m.value)
		if err != nil || string(same) != only.value {
			return false, invalidField(m.name, "%s", only.why)
		}
		return false, nil
	}
	check, ok := chatPassed[m.name]
	if !ok {
		return false, invalidField(clipField(m.name), "is not a parameter that this server takes")
	}
	if why := check(m.value); why != "" {
		return false, invalidField(m.name, "%s", why)
	}
	if m.name == "max_completion_tokens" || m.name == "max_tokens" && c.limit == nil {
		var n whole
		_ = json.Unmarshal(m.value, &n) // it was checked
		limit := int(n)
		c.limit = &limit
	}
	return true, nil
}

// chatOwn are the members that are the door's own.
var chatOwn = map[string]bool{"model": true, "messages": true, "stream": true, "stream_options": true, "metadata": true}

func (c *chatCall) streamOptions(raw json.RawMessage) *problem {
	const field = "stream_options"
	members, err := membersOf(raw)
	if err != nil {
		return invalidField(field, "is %s", err)
	}
	for _, m := range members {
		switch {
		case isNull(m.value):
		case m.name == "include_usage" && json.Unmarshal(m.value, &c.includeUsage) == nil:
		case m.name == "include_obfuscation" && string(m.value) == "false":
		default:
			return invalidField(clipField(field+"."+m.name), "is not taken, or not with this value")
		}
	}
	return nil
}

// member is one of an object, its value as it came.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf reads exactly one object, in its order. Its errors complete "is …".
func membersOf(raw []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var out []member
	seen := make(map[string]bool)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errors.New("not readable JSON")
		}
		m := member{name: name.(string)} // the decoder takes no other key
		if seen[m.name] {
			return nil, errors.New("an object with the member " + clipField(m.name) + " twice")
		}
		seen[m.name] = true
		if err := d.Decode(&m.value); err != nil {
			return nil, errors.New("not readable JSON")
		}
		out = append(out, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("not readable JSON")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("followed by something else")
	}
	return out, nil
}

// clipField keeps a name that the caller made up short, and readable.
func clipField(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, tasks.Cut(name, 128))
	if strings.TrimSpace(name) == "" {
		return "a member without a name"
	}
	return name
}

// escapedNUL reports whether a JSON text escapes a NUL, which no store of texts takes.
func escapedNUL(body []byte) bool {
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 || i+1 >= len(body) {
			return false
		}
		unit, ok := escapedUnit(body[i:])
		if ok && unit == 0 {
			return true
		}
		body = body[i+2:]
	}
}
