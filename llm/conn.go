package llm

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// inBuffer is small because it waits as long as the call does; an answer of a few KiB is read in a few pieces.
const inBuffer = 2 << 10

// past is a deadline that interrupts reads and writes at once.
var past = time.Unix(1, 0)

// wireConn is a connection to the server, or to a proxy, that counts what is written to it.
type wireConn struct {
	net.Conn // TLS or the counted TCP connection
	raw      *countedConn
	in       *bufio.Reader
	left     int64 // bytes that may still be read from it, negative: any number
	readErr  error // of the network, whatever a parser makes of it
	base     int64 // bytes written before the present call's request
	key      string
	absolute bool // a plain request through a proxy names the whole URL
	reused   bool
	reusable bool
	idleFrom time.Time
}

// countedConn counts the bytes the kernel took. Only the goroutine of the call writes.
type countedConn struct {
	net.Conn
	written int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written += int64(n)
	return n, err
}

// Read lets the header reader stop at its limit.
func (w *wireConn) Read(p []byte) (int, error) {
	if w.left == 0 {
		return 0, io.EOF
	}
	if w.left > 0 && int64(len(p)) > w.left {
		p = p[:w.left]
	}
	n, err := w.Conn.Read(p)
	if w.left > 0 {
		w.left -= int64(n)
	}
	w.readErr = err
	return n, err
}

func (w *wireConn) wire() Wire {
	out := Wire{BytesOut: w.raw.written - w.base, Reused: w.reused}
	if out.BytesOut > 0 {
		out.Requests = 1
	}
	return out
}

// watch interrupts the connection when ctx ends. The returned function ends the watch and waits for it.
func (w *wireConn) watch(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	conn, done := w.Conn, make(chan struct{}) // the handshake puts another in its place
	cancel := context.AfterFunc(ctx, func() {
		conn.SetDeadline(past)
		close(done)
	})
	return func() {
		if !cancel() {
			<-done
		}
	}
}

// deadline gives reads d from now, 0 for ever. The context's interruption must not be overwritten by it.
func (w *wireConn) deadline(ctx context.Context, d time.Duration) {
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	w.Conn.SetReadDeadline(at)
	if ctx.Err() != nil {
		w.Conn.SetReadDeadline(past)
	}
}

// connect returns a connection over which nothing of req has been sent. Its errors prove that.
func (c *Client) connect(ctx context.Context, req *http.Request) (*wireConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var proxy *url.URL
	if c.cfg.Proxy != nil {
		var err error
		if proxy, err = c.cfg.Proxy(req); err != nil {
			return nil, errors.New("the proxy's address cannot be read") // its text may hold a password
		}
	}
	key := req.URL.Scheme + "://" + req.URL.Host
	if proxy != nil {
		key += " " + proxy.Host
	}
	conn := c.idle.take(key)
	if conn == nil {
		var err error
		if conn, err = c.dial(ctx, req.URL, proxy); err != nil {
			return nil, err
		}
		conn.key = key
	}
	if proxy != nil && conn.absolute {
		authorize(req.Header, proxy)
	}
	return conn, nil
}

func (c *Client) dial(ctx context.Context, target, proxy *url.URL) (*wireConn, error) {
	hop := target
	if proxy != nil {
		if proxy.Scheme != "http" {
			return nil, fmt.Errorf("proxy scheme %q is not supported, only http", proxy.Scheme)
		}
		hop = proxy
	}
	raw, err := c.cfg.Dial(ctx, "tcp", address(hop))
	if err != nil {
		return nil, err
	}
	w := &wireConn{raw: &countedConn{Conn: raw}, left: -1}
	w.Conn = w.raw
	switch target.Scheme {
	case "http":
		w.absolute = proxy != nil
	case "https":
		stop := w.watch(ctx)
		err = c.secure(ctx, w, target, proxy)
		stop()
		if err != nil {
			raw.Close()
			return nil, err
		}
	default:
		raw.Close()
		return nil, fmt.Errorf("scheme %q is not supported", target.Scheme)
	}
	w.in = bufio.NewReaderSize(w, inBuffer)
	w.base = w.raw.written
	return w, nil
}

// secure opens the proxy's tunnel, if any, and does the TLS handshake.
func (c *Client) secure(ctx context.Context, w *wireConn, target, proxy *url.URL) error {
	w.Conn.SetDeadline(time.Now().Add(c.cfg.TLSTimeout))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if proxy != nil {
		if err := tunnel(w.Conn, address(target), proxy, c.cfg.MaxHeaderBytes); err != nil {
			return err
		}
	}
	cfg := c.cfg.TLS
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = target.Hostname()
	}
	conn := tls.Client(w.raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	w.Conn = conn
	conn.SetDeadline(time.Time{})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

func tunnel(conn net.Conn, addr string, proxy *url.URL, limit int64) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	authorize(req.Header, proxy)
	if err := req.Write(conn); err != nil {
		return fmt.Errorf("proxy CONNECT: %w", err)
	}
	in := bufio.NewReaderSize(io.LimitReader(conn, limit), inBuffer)
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return errors.New("proxy CONNECT: no answer")
	}
	if resp.StatusCode != http.StatusOK || in.Buffered() > 0 {
		return fmt.Errorf("proxy CONNECT: refused with status %d", resp.StatusCode)
	}
	return nil
}

func authorize(h http.Header, proxy *url.URL) {
	if proxy.User != nil {
		password, _ := proxy.User.Password()
		h.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password)))
	}
}

func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}
