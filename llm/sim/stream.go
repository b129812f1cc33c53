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

// stream writes the answer as server-sent events. A cut one stops in the middle of its text.
func (s *Server) stream(w http.ResponseWriter, c call, r *rule, rep reply, n int64, status int, end func()) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(status)
	if r.Do == doResetAfterHeaders {
		end()
		flush(w)
		reset(w)
		return
	}
	var ok bool
	event := func(ch []choice, u *usage) {
		b, err := json.Marshal(chunk{completionID(n), "chat.completion.chunk", created, c.model, ch, u})
		if err != nil {
			return
		}
		_, err = w.Write(append(append([]byte("data: "), b...), "\n\n"...))
		ok = err == nil
	}
	event([]choice{{Delta: &message{Role: "assistant"}}}, nil)
	pieces := split(rep.text)
	for i, p := range pieces {
		if r.Do == doCutStream && i >= len(pieces)/2 || !ok {
			break
		}
		event([]choice{{Delta: &message{Content: p}}}, nil)
		flush(w)
	}
	if r.Do == doCutStream {
		end()
		flush(w)
		panic(http.ErrAbortHandler)
	}
	event([]choice{{Delta: &message{}, FinishReason: &rep.finish}}, nil)
	if c.usage {
		event([]choice{}, usageOf(rep))
	}
	end()
	_, _ = w.Write([]byte("data: [DONE]\n\n"))
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
