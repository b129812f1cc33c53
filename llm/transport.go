package llm

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// TransportConfig says how a Client reaches its server. The zero value is ready for use.
type TransportConfig struct {
	ConnectTimeout time.Duration // for one TCP connection, 10 s when 0
	TLSTimeout     time.Duration // for the TLS handshake, or a proxy's CONNECT; 10 s when 0
	HeaderTimeout  time.Duration // from the request written to the answer's header; 0: as long as the context allows
	MaxHeaderBytes int64         // of an answer, 64 KiB when 0
	MaxBodyBytes   int64         // of an answer, streamed or not; 8 MiB when 0

	// Limits of Stream on silence. Every byte counts, also a comment's: what a server may spend altogether is the
	// context's to say, and MaxBodyBytes.
	FirstToken time.Duration // until the first event: the header and each wait before it; 90 s when 0
	Idle       time.Duration // of each wait after it; 60 s when 0

	TLS *tls.Config // nil: the system's roots. ALPN is always http/1.1

	// Proxy returns the http:// proxy for a request, nil for none. The environment is not consulted unless
	// http.ProxyFromEnvironment is given here.
	Proxy func(*http.Request) (*url.URL, error)

	// KeepAlive is how long an idle connection may wait for the next call; 0 gives each call its own connection. A
	// server that closes a kept connection at the moment it is used makes an ambiguous failure of a request it never
	// read, so keep it well under the server's own idle time, and use it only where connections are dear.
	KeepAlive time.Duration

	// AllowIdempotencyKey lets the Idempotency-Key and X-Idempotency-Key headers through, for a provider that documents
	// them. Otherwise they are dropped: to a server that ignores them they promise what is not so, and clients and
	// proxies on the way take them as leave to repeat the request.
	AllowIdempotencyKey bool

	// Dial replaces the TCP dialer, for tests. It must return only established connections.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Client sends requests, each exactly once. It is safe for concurrent use.
type Client struct {
	cfg  TransportConfig
	idle idleConns
}

// NewClient returns a client for cfg.
func NewClient(cfg TransportConfig) *Client {
	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = 10 * time.Second
	}
	if cfg.TLSTimeout <= 0 {
		cfg.TLSTimeout = 10 * time.Second
	}
	if cfg.MaxHeaderBytes <= 0 {
		cfg.MaxHeaderBytes = 64 << 10
	}
	if cfg.MaxBodyBytes <= 0 {
		cfg.MaxBodyBytes = 8 << 20
	}
	if cfg.FirstToken <= 0 {
		cfg.FirstToken = 90 * time.Second
	}
	if cfg.Idle <= 0 {
		cfg.Idle = time.Minute
	}
	if cfg.TLS == nil {
		cfg.TLS = &tls.Config{}
	}
	cfg.TLS = cfg.TLS.Clone()
	cfg.TLS.NextProtos = []string{"http/1.1"}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: cfg.ConnectTimeout}).DialContext
	}
	return &Client{cfg: cfg, idle: idleConns{keep: cfg.KeepAlive}}
}

// Close closes the idle connections. Calls under way go on.
func (c *Client) Close() { c.idle.close() }

// Response is a complete answer of any status.
type Response struct {
	Status int
	Header http.Header
	Body   []byte

	Streamed bool // by Stream: the body was events, and Body is empty
}

// Wire is what a call did on the wire, counted where bytes were given to the kernel.
type Wire struct {
	Requests int   // 0 or 1: whether any byte of the request was written
	BytesOut int64 // written bytes, TLS included, handshake excluded
	Reused   bool  // the connection had served a call before
}

var (
	errHeaderTooLarge = errors.New("the answer's header is too large")
	errBodyTooLarge   = errors.New("the answer is too large")
	errHeaderTimeout  = errors.New("no answer within the header timeout")
	errMalformed      = errors.New("the answer is not HTTP")
	errSwitched       = errors.New("the server switched protocols unasked")
)

// Do sends req once and reads the whole answer. req belongs to the client from here on; its own context is not used.
//
// The error is always a *Failure: NotSent when no byte of the request left, Cancelled when ctx was cancelled after
// that, else Ambiguous (also when ctx's deadline passed: the request may have run). A status other than 2xx is no error
// here, and neither is a body that broke off behind such a status: the refusal has been said.
func (c *Client) Do(ctx context.Context, req *http.Request) (Response, Wire, error) {
	return c.once(ctx, req, c.cfg.HeaderTimeout, errHeaderTimeout, func(_ *wireConn, head *http.Response, resp *Response) (bool, error) {
		return true, c.readWhole(head, resp)
	})
}

// readBody reads what follows a header into resp. whole says that nothing of the answer is left on the connection.
type readBody func(conn *wireConn, head *http.Response, resp *Response) (whole bool, err error)

// once sends req once and has its answer read. patience is how long the header may take, 0 for ever, and late the error
// when it takes longer.
func (c *Client) once(ctx context.Context, req *http.Request, patience time.Duration, late error, read readBody) (Response, Wire, error) {
	if !c.cfg.AllowIdempotencyKey {
		req.Header.Del("Idempotency-Key")
		req.Header.Del("X-Idempotency-Key")
	}
	req.Header.Del("Expect") // no second round before the body: it is written in one go
	req.Close = c.cfg.KeepAlive <= 0

	conn, err := c.connect(ctx, req)
	if err != nil {
		return Response{}, Wire{}, transportFailure(ctx, Wire{}, err)
	}
	stop := conn.watch(ctx)
	resp, err := c.exchange(ctx, conn, req, patience, read)
	stop()
	if errors.Is(err, errHeaderTimeout) {
		err = late
	}

	wire := conn.wire()
	if err == nil && conn.reusable && ctx.Err() == nil { // a context that ended may have left its deadline on it
		c.idle.put(conn)
	} else {
		conn.Close()
	}
	if err != nil && resp.Status < 300 {
		return resp, wire, transportFailure(ctx, wire, err)
	}
	return resp, wire, nil
}

func (c *Client) exchange(ctx context.Context, conn *wireConn, req *http.Request, patience time.Duration, read readBody) (Response, error) {
	if err := ctx.Err(); err != nil {
		return Response{}, err
	}
	writeErr := conn.send(req)
	if conn.wire().Requests == 0 {
		return Response{}, writeErr
	}
	// A server may refuse and close before it has read everything: what it said is worth more than the write's error.
	if writeErr != nil {
		conn.deadline(ctx, time.Second)
	} else {
		conn.deadline(ctx, patience)
	}
	head, err := conn.readHeader(req, c.cfg.MaxHeaderBytes)
	if err != nil {
		if writeErr != nil {
			err = writeErr
		}
		return Response{}, err
	}
	resp := Response{Status: head.StatusCode, Header: head.Header}
	conn.deadline(ctx, 0)
	whole, err := read(conn, head, &resp)
	conn.reusable = whole && err == nil && writeErr == nil && !req.Close && !head.Close && conn.in.Buffered() == 0
	return resp, err
}

func (c *Client) readWhole(head *http.Response, resp *Response) (err error) {
	resp.Body, err = io.ReadAll(io.LimitReader(head.Body, c.cfg.MaxBodyBytes+1))
	if int64(len(resp.Body)) > c.cfg.MaxBodyBytes {
		resp.Body, err = resp.Body[:c.cfg.MaxBodyBytes], errBodyTooLarge
	}
	return err
}

// send renders the request in memory first, so that nothing local can fail half-way on the wire, and writes it in one go.
func (w *wireConn) send(req *http.Request) error {
	var buf bytes.Buffer
	buf.Grow(int(max(req.ContentLength, 0)) + 1024)
	write := req.Write
	if w.absolute {
		write = req.WriteProxy
	}
	if err := write(&buf); err != nil {
		return fmt.Errorf("render the request: %w", err)
	}
	_, err := w.Conn.Write(buf.Bytes())
	return err
}

// readHeader reads up to the first final header.
func (w *wireConn) readHeader(req *http.Request, limit int64) (*http.Response, error) {
	w.left = limit
	for range 8 { // informational answers before the final one
		head, err := http.ReadResponse(w.in, req)
		if err != nil {
			return nil, w.headerError()
		}
		switch {
		case head.StatusCode == http.StatusSwitchingProtocols:
			return nil, errSwitched
		case head.StatusCode >= 200:
			w.left = -1
			return head, nil
		}
	}
	return nil, errMalformed
}

// headerError keeps what the network said, and replaces what a parser said: that quotes the answer.
func (w *wireConn) headerError() error {
	var netErr net.Error
	switch {
	case w.left == 0:
		return errHeaderTooLarge
	case w.readErr == nil:
		return errMalformed
	case errors.Is(w.readErr, io.EOF):
		return io.ErrUnexpectedEOF
	case errors.As(w.readErr, &netErr) && netErr.Timeout():
		return errHeaderTimeout
	}
	return w.readErr
}

// transportFailure classifies an error of the wire. What was written decides; the error's own words do not.
func transportFailure(ctx context.Context, wire Wire, err error) *Failure {
	f := &Failure{Class: Ambiguous, Err: err, Report: Report{WireRequests: wire.Requests}}
	ended := ctx.Err()
	if ended != nil {
		f.Err = contextError(ctx)
	}
	switch {
	case wire.Requests == 0:
		f.Class, f.Message = NotSent, "nothing was sent: "+clip(f.Err.Error(), maxMessage)
	case errors.Is(ended, context.Canceled):
		f.Class, f.Message = Cancelled, "cancelled after the request was sent: "+clip(f.Err.Error(), maxMessage)
	default:
		f.Message = "no complete answer after the request was sent: " + clip(f.Err.Error(), maxMessage)
	}
	return f
}

// contextError names why ctx ended; errors.Is finds both the cause and context.Canceled or DeadlineExceeded.
func contextError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w (%w)", cause, ctx.Err())
}

// Interrupted is the failure of a call whose context ended; sent says whether its request had left.
func Interrupted(ctx context.Context, sent bool) *Failure {
	var wire Wire
	if sent {
		wire.Requests = 1
	}
	return transportFailure(ctx, wire, ctx.Err())
}
