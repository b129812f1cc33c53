package llm

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// wireServer counts, on its side of the wire, every request of which it saw at least one byte, and does what a script
// says after it has read the whole of it.
type wireServer struct {
	t        testing.TB
	ln       net.Listener
	requests atomic.Int64
	conns    atomic.Int64
	lastHead atomic.Pointer[http.Request]
	seen     chan struct{} // one for each request read
	wg       sync.WaitGroup
	script   func(conn net.Conn, n int64) (keep bool)
}

func newWireServer(t testing.TB, script func(conn net.Conn, n int64) bool) *wireServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &wireServer{t: t, ln: ln, script: script, seen: make(chan struct{}, 1000)}
	s.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			s.wg.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() { ln.Close(); s.wg.Wait() })
	return s
}

func (s *wireServer) url() string { return "http://" + s.ln.Addr().String() + "/v1/chat/completions" }

func (s *wireServer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		if _, err := in.Peek(1); err != nil {
			return
		}
		n := s.requests.Add(1)
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		s.lastHead.Store(req)
		s.seen <- struct{}{}
		if !s.script(conn, n) {
			return
		}
	}
}

func say(conn net.Conn, text string) bool { _, err := io.WriteString(conn, text); return err == nil }

func rst(conn net.Conn) bool { conn.(*net.TCPConn).SetLinger(0); return false }

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

func post(t testing.TB, url string, idem bool) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	if idem {
		req.Header.Set("Idempotency-Key", "k")
		req.Header.Set("X-Idempotency-Key", "k")
	}
	return req
}

func do(t testing.TB, c *Client, url string, idem bool) (Response, Wire, *Failure) {
	t.Helper()
	resp, wire, err := c.Do(context.Background(), post(t, url, idem))
	return resp, wire, failureOf(t, err, wire)
}

// failureOf checks what holds of every error of a Client.
func failureOf(t testing.TB, err error, wire Wire) *Failure {
	t.Helper()
	if err == nil {
		return nil
	}
	f, ok := err.(*Failure)
	if !ok {
		t.Fatalf("error %T is no *Failure: %v", err, err)
	}
	if f.WireRequests != wire.Requests {
		t.Errorf("failure reports %d requests, the wire %d", f.WireRequests, wire.Requests)
	}
	if (f.Class == NotSent) != (wire.Requests == 0) {
		t.Errorf("class %s with %d requests on the wire", f.Class, wire.Requests)
	}
	return f
}
