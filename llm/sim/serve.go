package sim

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Answers as they go on the wire.
type (
	completion struct {
		ID      string   `json:"id"`
		Object  string   `json:"object"`
		Created int64    `json:"created"`
		Model   string   `json:"model"`
		Choices []choice `json:"choices"`
		Usage   *usage   `json:"usage"`
	}
	choice struct {
		Index        int      `json:"index"`
		Message      *message `json:"message,omitempty"`
		Delta        *message `json:"delta,omitempty"`
		LogProbs     *int     `json:"logprobs"`
		FinishReason *string  `json:"finish_reason"`
	}
	message struct {
		Role    string  `json:"role,omitempty"`
		Content string  `json:"content"`
		Refusal *string `json:"refusal"`
	}
	usage struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		TotalTokens      int64 `json:"total_tokens"`
	}
)

// created is fixed: an answer depends on its request alone.
const created = 1767225600

// protocol is how calls are read and answers written; what is answered is the engine's.
type protocol struct {
	idHeader string // of the request's id
	parse    func(body []byte) (call, error)
	body     func(c call, rep reply, n int64) any
	stream   func(out *eventWriter, c call, r *rule, rep reply, n int64)
	refusal  func(status int, message string) []byte
}

var completions = &protocol{idHeader: "X-Request-Id", parse: parseCall, body: chatBody, stream: chatStream, refusal: errorBody}

// serve is the engine over HTTP.
func (s *Server) serve(p *protocol, w http.ResponseWriter, req *http.Request) {
	h := headers{
		IdempotencyKey: req.Header.Get("Idempotency-Key"),
		TraceParent:    req.Header.Get("Traceparent"),
		RequestID:      req.Header.Get("X-Request-Id"),
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxRequestBody))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		s.refuse(p, w, req, h, status, errReadBody)
		return
	}
	c, err := p.parse(body)
	if err != nil {
		s.refuse(p, w, req, h, http.StatusBadRequest, err)
		return
	}
	body = nil // it would be held as long as the call waits

	e, r := s.begin(c, h)
	rep := say(c, &r)
	in, out := billed(rep, &r)
	status := 0
	// The end is written down before the last byte of the answer, or the reset: who has the answer finds it in the ledger.
	end := func() { s.note(s.ledger.end(e, r.Do, status, req.Context().Err() != nil, in, out)) }

	s.wait(req.Context(), time.Duration(r.Latency))
	for k, v := range r.Headers {
		w.Header().Set(k, v)
	}
	if w.Header().Get(p.idHeader) == "" {
		w.Header().Set(p.idHeader, "req_sim_"+strconv.FormatInt(e.N, 10))
	}
	switch r.Do {
	case doHang:
		s.hang(req.Context())
		end()
		panic(http.ErrAbortHandler)
	case doResetBeforeHeaders:
		end()
		reset(w)
	case doStatus, doAnswer, doEmpty, doGarbage, doResetAfterHeaders, doCutStream:
		status = http.StatusOK
		if r.Status != 0 {
			status = r.Status
		}
		s.answer(p, w, c, &r, rep, e.N, status, end)
	}
}

// answer writes what the rule wants written, and calls end once.
func (s *Server) answer(p *protocol, w http.ResponseWriter, c call, r *rule, rep reply, n int64, status int, end func()) {
	if raw, ok := rawAnswer(p, r, status); ok {
		send(w, status, raw, r, end)
		return
	}
	if c.stream {
		stream(p, w, c, r, rep, n, status, end)
		return
	}
	body, err := json.Marshal(p.body(c, rep, n))
	if err != nil {
		end()
		writeError(w, http.StatusInternalServerError, "the answer cannot be encoded")
		return
	}
	send(w, status, body, r, end)
}

func chatBody(c call, rep reply, n int64) any {
	return completion{
		ID: completionID(n), Object: "chat.completion", Created: created, Model: c.model,
		Choices: []choice{{Message: &message{Role: "assistant", Content: rep.text}, FinishReason: &rep.finish}},
		Usage:   usageOf(rep),
	}
}

// rawAnswer returns the body of an answer that is no completion.
func rawAnswer(p *protocol, r *rule, status int) ([]byte, bool) {
	if raw, ok := r.rawBody(); ok {
		return raw, true
	}
	switch r.Do {
	case doStatus:
		return p.refusal(status, "simulated status "+strconv.Itoa(status)), true
	case doGarbage:
		return []byte("\x00\xff\xfe}{ this is no JSON <html>"), true
	}
	return nil, false
}

// send writes a whole answer, or as much of it as the rule lets through.
func send(w http.ResponseWriter, status int, body []byte, r *rule, end func()) {
	contentType(w, body)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	end()
	w.WriteHeader(status)
	switch r.Do {
	case doResetAfterHeaders:
		flush(w)
		reset(w)
	case doCutStream:
		_, _ = w.Write(body[:len(body)/2])
		flush(w)
		panic(http.ErrAbortHandler)
	default:
		_, _ = w.Write(body)
	}
}

func contentType(w http.ResponseWriter, body []byte) {
	if w.Header().Get("Content-Type") != "" {
		return
	}
	if json.Valid(body) {
		w.Header().Set("Content-Type", "application/json")
	} else {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
}

// refuse answers a request that is not a call. It is listed all the same: it arrived.
func (s *Server) refuse(p *protocol, w http.ResponseWriter, req *http.Request, h headers, status int, err error) {
	e := &entry{Headers: h}
	s.note(s.ledger.arrive(e))
	s.note(s.ledger.end(e, doStatus, status, req.Context().Err() != nil, 0, 0))
	writeBody(w, status, p.refusal(status, err.Error()))
}

// reset ends the connection with a RST, so that the client sees a failure of the network and no end of an answer.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // HTTP/2: its stream is reset instead
		panic(http.ErrAbortHandler)
	}
	raw := conn
	if t, ok := conn.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	if t, ok := raw.(interface{ SetLinger(sec int) error }); ok { // a *net.TCPConn, or what a test wraps it in
		_ = t.SetLinger(0)
	}
	raw.Close()
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func completionID(n int64) string { return "chatcmpl-sim-" + strconv.FormatInt(n, 10) }

func usageOf(rep reply) *usage {
	return &usage{PromptTokens: rep.input, CompletionTokens: rep.output, TotalTokens: rep.input + rep.output}
}
