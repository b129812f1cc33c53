package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// stream writes server-sent events. A reader that does not take one within writeTime loses its connection: what was not
// taken is had by asking again, and is not kept here. After a failure nothing is written any more.
type stream struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	failed bool
}

// newStream sends the headers. HEAD has nothing else: see nothing into it.
func newStream(w http.ResponseWriter) *stream {
	h := w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Accel-Buffering"] = []string{"no"} // proxies of nginx's kind would collect the events
	w.WriteHeader(http.StatusOK)
	return &stream{w: w, rc: http.NewResponseController(w)}
}

// send writes one event; id and name are left out when empty, and data is JSON, or a string as it is.
func (s *stream) send(id, name string, data any) bool {
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	if id != "" {
		fmt.Fprintf(buf, "id: %s\n", id)
	}
	if name != "" {
		fmt.Fprintf(buf, "event: %s\n", name)
	}
	buf.WriteString("data: ")
	if text, ok := data.(string); ok {
		buf.WriteString(text)
		buf.WriteByte('\n')
	} else {
		e := json.NewEncoder(buf) // one line, and its end
		e.SetEscapeHTML(false)
		if err := e.Encode(data); err != nil {
			s.failed = true // the views hold nothing that has no JSON
			return false
		}
	}
	buf.WriteByte('\n')
	return s.write(buf.Bytes())
}

// comment writes what clients skip; it keeps proxies from taking a silent connection for a dead one.
func (s *stream) comment(text string) bool { return s.write([]byte(": " + text + "\n\n")) }

// retry tells an EventSource how long to wait before it connects again.
func (s *stream) retry(d time.Duration) bool {
	return s.write(fmt.Appendf(nil, "retry: %d\n\n", d.Milliseconds()))
}

func (s *stream) write(b []byte) bool {
	if s.failed {
		return false
	}
	// http.Server's WriteTimeout has passed, or will. A writer that does not know deadlines has none.
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := s.w.Write(b)
	if err == nil {
		err = s.rc.Flush()
	}
	s.failed = err != nil
	return !s.failed
}
