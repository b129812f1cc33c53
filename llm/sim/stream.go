package sim

import (
	"encoding/json"
	"net/http"
)

// chunkBytes is the size of a streamed piece of text.
const chunkBytes = 16

// chunk is one event of a stream. Usage is left out unless it was asked for, as the protocol has it.
type chunk struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

// eventWriter writes server-sent events until the client is gone or the rule's fault has happened.
type eventWriter struct {
	w    http.ResponseWriter
	end  func() // to be called before the last event
	over bool
}

// event writes v as one event, with its name when the protocol has names.
func (out *eventWriter) event(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil || out.over {
		return
	}
	out.raw(name, b)
}

func (out *eventWriter) raw(name string, data []byte) {
	var line []byte
	if name != "" {
		line = append(append(append(line, "event: "...), name...), '\n')
	}
	line = append(append(append(line, "data: "...), data...), "\n\n"...)
	_, err := out.w.Write(line)
	out.over = out.over || err != nil
}

// text writes the answer's text in pieces. A cut stream stops in the middle of it, and with it the handler.
func (out *eventWriter) text(r *rule, text string, piece func(string)) {
	pieces := split(text)
	for i, p := range pieces {
		if r.Do == doCutStream && i >= len(pieces)/2 || out.over {
			break
		}
		piece(p)
		flush(out.w)
	}
	if r.Do == doCutStream {
		out.end()
		flush(out.w)
		panic(http.ErrAbortHandler)
	}
}

// stream writes the answer as server-sent events.
func stream(p *protocol, w http.ResponseWriter, c call, r *rule, rep reply, n int64, status int, end func()) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(status)
	if r.Do == doResetAfterHeaders {
		end()
		flush(w)
		reset(w)
		return
	}
	p.stream(&eventWriter{w: w, end: end}, c, r, rep, n)
}

func chatStream(out *eventWriter, c call, r *rule, rep reply, n int64) {
	event := func(ch []choice, u *usage) {
		out.event("", chunk{completionID(n), "chat.completion.chunk", created, c.model, ch, u})
	}
	event([]choice{{Delta: &message{Role: "assistant"}}}, nil)
	out.text(r, rep.text, func(piece string) { event([]choice{{Delta: &message{Content: piece}}}, nil) })
	event([]choice{{Delta: &message{}, FinishReason: &rep.finish}}, nil)
	if c.usage {
		event([]choice{}, usageOf(rep))
	}
	out.end()
	out.raw("", []byte("[DONE]"))
}

func split(text string) []string {
	var out []string
	for len(text) > 0 {
		p := cut(text, chunkBytes)
		out = append(out, p)
		text = text[len(p):]
	}
	return out
}
