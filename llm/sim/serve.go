package sim

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// exchange is the answer to one request.
type exchange struct {
	s       *Server
	w       http.ResponseWriter
	ctx     context.Context // of the client
	g       *generation
	set     settings
	key     *keyed // the idempotency key that it came under, nil without one
	status  int
	written int  // bytes of the text
	over    bool // its end is written down
}

// serve is the engine over HTTP.
func (s *Server) serve(p *protocol, w http.ResponseWriter, req *http.Request) {
	set := s.settings.get()
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
	key, known := s.claim(set, req, body)
	if known != "" {
		s.repeat(w, req, set, key, known, p)
		return
	}
	body = nil // it would be held as long as the call waits

	g := s.begin(p, c, h)
	x := &exchange{s: s, w: w, ctx: req.Context(), g: g, set: set, key: key}
	switch alone := x.alone(); {
	case alone && !s.start(g):
		panic(http.ErrAbortHandler)
	case g.call.store && (alone || !g.rule.action().free):
		s.kept.add(g)
	}
	key.run(g)
	if !x.alone() {
		s.wait(x.ctx, time.Duration(g.rule.Latency))
	}
	x.serve()
}

// alone reports whether the generation goes on by itself, whatever becomes of the exchange.
func (x *exchange) alone() bool { return x.g.call.background && x.g.rule.Do != doStatus }

// serve does what the rule says.
func (x *exchange) serve() {
	r := &x.g.rule
	for k, v := range r.Headers {
		x.w.Header().Set(k, v)
	}
	if x.w.Header().Get(x.g.p.idHeader) == "" {
		x.w.Header().Set(x.g.p.idHeader, "req_sim_"+strconv.FormatInt(x.g.n, 10))
	}
	switch {
	case r.Do == doHang && !x.alone():
		x.s.hang(x.ctx)
		x.end()
		panic(http.ErrAbortHandler)
	case r.Do == doResetBeforeHeaders:
		x.end()
		reset(x.w)
	default:
		x.status = http.StatusOK
		if r.Status != 0 {
			x.status = r.Status
		}
		x.answer()
	}
}

// end writes down how the exchange ended, before the last byte of the answer, or the reset: who has the answer finds it
// in the ledger. What runs in the background ends by itself.
func (x *exchange) end() {
	g := x.g
	if x.over || x.alone() {
		return
	}
	x.over = true
	gone := x.ctx.Err() != nil
	in, out := billed(g.rep, &g.rule)
	stopped := gone && !x.set.BillOnDisconnect
	if stopped {
		out = min(out, tokens(x.written))
	}
	x.s.note(x.s.ledger.end(g.e, g.rule.Do, x.status, gone, in, out))
	none := stopped || g.rule.action().free
	if none {
		x.s.keys.release(x.key)
	}
	if none || gone && !x.set.StoreAbandoned {
		x.s.kept.drop(g)
	}
	if !none {
		g.ends(wasMade)
	}
}

// answer writes what the rule wants written.
func (x *exchange) answer() {
	g := x.g
	if raw, ok := rawAnswer(g.p, &g.rule, x.status); ok && !(g.call.stream && g.rule.errorEvent()) {
		x.send(raw)
		return
	}
	if g.call.stream {
		x.stream()
		return
	}
	state := g.outcome()
	if g.call.background {
		state = "queued"
	}
	if x.w.Header().Get("Content-Type") == "" {
		x.w.Header().Set("Content-Type", "application/json") // also of one with bad bytes in it
	}
	x.send(encode(g, state))
}

// encode is the body of an answer.
func encode(g *generation, state string) []byte {
	b, err := json.Marshal(g.p.body(g, state))
	if err != nil {
		return g.p.refusal(http.StatusInternalServerError, "the answer cannot be encoded")
	}
	return spoil(b, &g.rule)
}

// rawAnswer returns the body of an answer that is none of the model's.
func rawAnswer(p *protocol, r *rule, status int) ([]byte, bool) {
	fails := r.Do == doFail && p.failed
	if raw, ok := r.rawBody(); ok && !fails {
		return raw, true
	}
	switch {
	case r.Do == doStatus:
		return p.refusal(status, "simulated status "+strconv.Itoa(status)), true
	case r.Do == doGarbage:
		return []byte("\x00\xff\xfe}{ this is no JSON <html>"), true
	case r.errorEvent() && !fails:
		return p.refusal(http.StatusInternalServerError, "simulated error in an answer"), true
	}
	return nil, false
}

// send writes a whole answer, or as much of it as the rule lets through.
func (x *exchange) send(body []byte) {
	w, r := x.w, &x.g.rule
	contentType(w, body)
	pad := max(r.LineBytes-len(body), 0)
	if r.Do == doEndEarly {
		w.Header().Set("Transfer-Encoding", "identity")
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)+pad))
	}
	if r.Do != doStall {
		x.end()
	}
	w.WriteHeader(x.status)
	half := body[:len(body)/2]
	switch r.Do {
	case doResetAfterHeaders:
		flush(w)
		reset(w)
		return
	case doCutEvent:
		half = body[:inside(body)]
	case doCutStream, doEndEarly, doStall:
	default:
		_, _ = w.Write(body)
		x.pad(pad)
		return
	}
	_, _ = w.Write(half)
	flush(w)
	switch r.Do {
	case doEndEarly:
		return
	case doStall:
		x.s.hang(x.ctx)
		x.end()
	}
	panic(http.ErrAbortHandler)
}

func contentType(w http.ResponseWriter, body []byte) {
	if w.Header().Get("Content-Type") != "" {
		return
	}
	switch {
	case json.Valid(body):
		w.Header().Set("Content-Type", "application/json")
	case len(body) > 0 && body[0] == '<':
		w.Header().Set("Content-Type", "text/html")
	default:
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
