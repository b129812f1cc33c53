package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/fencepost/fencepost/tasks"
)

// Limits of the fields of a message, in bytes unless said otherwise.
const (
	maxConversation  = 255
	maxModel         = 128
	maxSystem        = 64 << 10
	maxPromptName    = 128
	maxDocument      = 256 // id and version, each
	maxOutputTokens  = 1_000_000
	maxMetadata      = 32 // entries
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// bodyLimit fits every body whose fields are within their limits: JSON may spend six bytes on one.
func bodyLimit(maxContent int) int64 {
	fields := maxContent + maxModel + maxSystem + maxPromptName + 2*maxDocument + maxMetadata*(maxMetadataKey+maxMetadataValue)
	return int64(6*fields + 8<<10)
}

// message is the body of POST /v1/conversations/{conversation}/messages.
type message struct {
	Content         string            `json:"content"`
	Model           string            `json:"model"`
	System          string            `json:"system"`
	Document        *tasks.Document   `json:"document"`
	PromptTemplate  string            `json:"prompt_template"`
	Temperature     *float64          `json:"temperature"`
	MaxOutputTokens *whole            `json:"max_output_tokens"`
	OnAmbiguous     tasks.OnAmbiguous `json:"on_ambiguous"`
	MaxAttempts     *whole            `json:"max_attempts"`
	DeadlineSeconds *whole            `json:"deadline_seconds"`
	Metadata        map[string]string `json:"metadata"`
}

// Buffers that grew over this are left to the collector.
const pooledBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= pooledBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

// readMessage reads and checks a body. w is told when the body is cut off, so that the connection is closed.
func readMessage(w http.ResponseWriter, r *http.Request, limits Limits) (*message, *problem) {
	if p := checkMediaType(r.Header); p != nil {
		return nil, p
	}
	limit := bodyLimit(limits.MaxContent)
	if r.ContentLength > limit {
		return nil, tooLarge("body", int(limit))
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf) // what is decoded are copies
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		var tooMany *http.MaxBytesError
		if errors.As(err, &tooMany) {
			return nil, tooLarge("body", int(limit))
		}
		p := invalidField("body", "could not be read to its end")
		p.cause = err
		return nil, p
	}
	m, p := parseMessage(buf.Bytes())
	if p == nil {
		p = m.check(limits)
	}
	return m, p
}

func checkMediaType(h http.Header) *problem {
	const want = "send Content-Type: application/json"
	switch t := h.Get("Content-Type"); t {
	case "application/json":
	default:
		media, params, err := mime.ParseMediaType(t)
		if charset := params["charset"]; err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
			return unsupportedMediaType(want)
		}
	}
	if e := h.Get("Content-Encoding"); e != "" && e != "identity" {
		p := unsupportedMediaType("send the body without Content-Encoding")
		p.Field = "Content-Encoding"
		return p
	}
	return nil
}

func parseMessage(body []byte) (*message, *problem) {
	m := new(message)
	if p := parseObject(body, m); p != nil {
		return nil, p
	}
	return m, nil
}

// parseObject reads exactly one JSON object without unknown fields.
func parseObject(body []byte, into any) *problem {
	if !utf8.Valid(body) {
		return invalidField("body", "is not valid UTF-8")
	}
	// encoding/json would put U+FFFD in its place.
	if loneSurrogate(body) {
		return invalidField("body", `has half a surrogate pair (\ud800 to \udfff)`)
	}
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return invalidField("body", "is not a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return decodeProblem(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return invalidField("body", "has something after the JSON object")
	}
	return nil
}

func decodeProblem(err error) *problem {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return invalidField(wrongType.Field, "cannot be a JSON %s", wrongType.Value)
	}
	// encoding/json has no type for this error.
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		name, err := strconv.Unquote(quoted)
		if name = tasks.Cut(name, 64); err != nil || name == "" {
			return invalidField("body", "has a field that this route does not know")
		}
		return invalidField(name, "is not a field of this route's body")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return invalidField("body", "ends in the middle of the JSON object")
	}
	return invalidField("body", "is not readable JSON: %s", tasks.Cut(err.Error(), 200))
}

// loneSurrogate reports whether a JSON text escapes half a surrogate pair.
func loneSurrogate(body []byte) bool {
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 || i+1 >= len(body) {
			return false
		}
		unit, ok := escapedUnit(body[i:])
		if !ok {
			body = body[i+2:]
			continue
		}
		body = body[i+6:]
		switch {
		case unit >= 0xdc00 && unit <= 0xdfff:
			return true
		case unit >= 0xd800 && unit <= 0xdbff:
			low, ok := escapedUnit(body)
			if !ok || low < 0xdc00 || low > 0xdfff {
				return true
			}
			body = body[6:]
		}
	}
}

// escapedUnit reads \uXXXX at the beginning of b.
func escapedUnit(b []byte) (unit uint16, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		unit <<= 4
		switch {
		case c >= '0' && c <= '9':
			unit |= uint16(c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			unit |= uint16(c|0x20-'a') + 10
		default:
			return 0, false
		}
	}
	return unit, true
}

// check says which field is not as it must be.
func (m *message) check(limits Limits) *problem {
	var doc tasks.Document
	if m.Document != nil {
		if doc = *m.Document; doc.ID == "" {
			return invalidField("document.id", "is empty")
		}
	}
	for _, f := range [...]struct {
		name, text string
		limit      int
	}{
		{"content", m.Content, limits.MaxContent}, {"system", m.System, maxSystem}, {"model", m.Model, maxModel},
		{"document.id", doc.ID, maxDocument}, {"document.version", doc.Version, maxDocument},
		{"prompt_template", m.PromptTemplate, maxPromptName},
	} {
		if p := checkText(f.name, f.text, f.limit); p != nil {
			return p
		}
	}
	if strings.TrimFunc(m.Content, unicode.IsSpace) == "" {
		return invalidField("content", "is empty")
	}
	if t := m.Temperature; t != nil {
		if !(*t >= 0 && *t <= 2) {
			return invalidField("temperature", "is not a number from 0 to 2")
		}
		if *t == 0 {
			*t = 0 // -0 is the same input
		}
	}
	if n := m.MaxOutputTokens; n != nil && (*n < 1 || *n > maxOutputTokens) {
		return invalidField("max_output_tokens", "is not from 1 to %d", maxOutputTokens)
	}
	switch m.OnAmbiguous {
	case "":
		m.OnAmbiguous = tasks.AmbiguousRetry
	case tasks.AmbiguousRetry, tasks.AmbiguousStop:
	default:
		return invalidField("on_ambiguous", `is neither "retry" nor "stop"`)
	}
	if n := m.MaxAttempts; n != nil && (*n < 1 || int(*n) > limits.MaxAttempts) {
		return invalidField("max_attempts", "is not from 1 to %d", limits.MaxAttempts)
	}
	if n, most := m.DeadlineSeconds, int(limits.MaxDeadline/time.Second); n != nil && (*n < 1 || int(*n) > most) {
		return invalidField("deadline_seconds", "is not from 1 to %d", most)
	}
	return m.checkMetadata()
}

func (m *message) checkMetadata() *problem {
	if len(m.Metadata) > maxMetadata {
		return invalidField("metadata", "has more than %d entries", maxMetadata)
	}
	for k, v := range m.Metadata {
		if k == "" {
			return invalidField("metadata", "has an empty key")
		}
		if p := checkText("metadata", k, maxMetadataKey); p != nil {
			return p
		}
		if p := checkText("metadata."+k, v, maxMetadataValue); p != nil {
			return p
		}
	}
	return nil
}

func checkText(field, text string, limit int) *problem {
	if len(text) > limit {
		return tooLarge(field, limit)
	}
	if strings.IndexByte(text, 0) >= 0 {
		return invalidField(field, "has a NUL character")
	}
	return nil
}

// checkConversation checks the name of a conversation, which is part of paths, of Kafka keys and of log lines.
func checkConversation(name string) *problem {
	const field = "conversation"
	switch {
	case name == "" || len(name) > maxConversation:
		return invalidField(field, "has not 1 to %d bytes", maxConversation)
	case name == "." || name == "..":
		return invalidField(field, "cannot be %q, which paths swallow", name)
	case !utf8.ValidString(name):
		return invalidField(field, "is not valid UTF-8")
	case strings.ContainsFunc(name, func(r rune) bool {
		return r == '/' || unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
	}):
		return invalidField(field, "has a slash or a control character")
	}
	return nil
}
