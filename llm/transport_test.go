package llm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// faults are what a server may do after it has read a request, and what the call must come to.
var faults = []struct {
	name   string
	script func(conn net.Conn, n int64) bool
	class  Class // empty: an answer
	status int
	err    error
}{
	{name: "answer", script: func(c net.Conn, _ int64) bool { return say(c, okAnswer) }, status: 200},
	{name: "chunked answer", status: 200, script: func(c net.Conn, _ int64) bool {
		return say(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
	}},
	{name: "answer ended by the connection", status: 200, script: func(c net.Conn, _ int64) bool {
		say(c, "HTTP/1.0 200 OK\r\n\r\n{}")
		return false
	}},
	{name: "close", class: Ambiguous, script: func(net.Conn, int64) bool { return false }, err: io.ErrUnexpectedEOF},
	{name: "reset", class: Ambiguous, script: func(c net.Conn, _ int64) bool { return rst(c) }, err: syscall.ECONNRESET},
	{name: "close in the header", class: Ambiguous, script: func(c net.Conn, _ int64) bool {
		say(c, "HTTP/1.1 200 OK\r\nContent-Le")
		return false
	}, err: io.ErrUnexpectedEOF},
	{name: "close in the body", class: Ambiguous, status: 200, script: func(c net.Conn, _ int64) bool {
		say(c, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}")
		return false
	}, err: io.ErrUnexpectedEOF},
	{name: "close in a refusal's body", status: 429, script: func(c net.Conn, _ int64) bool {
		say(c, "HTTP/1.1 429 Too Many\r\nContent-Length: 20\r\n\r\n{}")
		return false
	}},
	{name: "close in a chunk", class: Ambiguous, status: 200, script: func(c net.Conn, _ int64) bool {
		say(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
		return false
	}, err: io.ErrUnexpectedEOF},
	{name: "no HTTP", class: Ambiguous, err: errMalformed, script: func(c net.Conn, _ int64) bool {
		return say(c, "SSH-2.0-secret\r\n\r\n") && false
	}},
	{name: "switched protocols", class: Ambiguous, err: errSwitched, script: func(c net.Conn, _ int64) bool {
		say(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n")
		return false
	}},
	{name: "early hints", status: 200, script: func(c net.Conn, _ int64) bool {
		return say(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"+okAnswer)
	}},
	{name: "hints without end", class: Ambiguous, err: errMalformed, script: func(c net.Conn, _ int64) bool {
		say(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 50))
		return false
	}},
	{name: "header too large", class: Ambiguous, err: errHeaderTooLarge, script: func(c net.Conn, _ int64) bool {
		say(c, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 5000)+"\r\n\r\n")
		return false
	}},
	{name: "body too large", class: Ambiguous, status: 200, err: errBodyTooLarge, script: func(c net.Conn, _ int64) bool {
		say(c, "HTTP/1.1 200 OK\r\n\r\n"+strings.Repeat("x", 5000))
		return false
	}},
	{name: "answer and more", status: 200, script: func(c net.Conn, _ int64) bool { return say(c, okAnswer+okAnswer) }},
	{name: "500", status: 500, script: func(c net.Conn, _ int64) bool {
		return say(c, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
	}},
}

func init() {
	for _, status := range []int{301, 302, 303, 307, 308} {
		faults = append(faults, faults[0])
		f := &faults[len(faults)-1]
		f.name, f.status = fmt.Sprint("redirect ", status), status
		f.script = func(c net.Conn, _ int64) bool {
			return say(c, fmt.Sprintf("HTTP/1.1 %d Go\r\nLocation: http://%s/\r\nContent-Length: 0\r\n\r\n", status, c.LocalAddr()))
		}
	}
}

// Every fault, on a new and on a kept connection, with and without the header that makes net/http repeat requests: the
// server sees one request a call.
func TestI5_OneRequestOnTheWireWhateverTheServerDoes(t *testing.T) {
	for _, fault := range faults {
		for _, mode := range []struct {
			name              string
			keep              time.Duration
			warm, idem, allow bool
		}{
			{name: "new connection"},
			{name: "new connection, key dropped", idem: true},
			{name: "new connection, key sent", idem: true, allow: true},
			{name: "kept connection", keep: time.Minute, warm: true},
			{name: "kept connection, key sent", keep: time.Minute, warm: true, idem: true, allow: true},
		} {
			t.Run(fault.name+"/"+mode.name, func(t *testing.T) {
				t.Parallel()
				srv := newWireServer(t, func(conn net.Conn, n int64) bool {
					if mode.warm && n == 1 {
						return say(conn, okAnswer)
					}
					return fault.script(conn, n)
				})
				c := NewClient(TransportConfig{KeepAlive: mode.keep, AllowIdempotencyKey: mode.allow, MaxHeaderBytes: 2048, MaxBodyBytes: 2048})
				defer c.Close()
				want := int64(1)
				if mode.warm {
					if _, _, f := do(t, c, srv.url(), mode.idem); f != nil {
						t.Fatal(f)
					}
					want++
				}
				resp, wire, f := do(t, c, srv.url(), mode.idem)
				c.Close()
				srv.ln.Close()
				srv.wg.Wait() // nothing more can come
				if got := srv.requests.Load(); got != want || wire.Requests != 1 {
					t.Errorf("the server saw %d requests, want %d; the wire counted %d", got, want, wire.Requests)
				}
				if wire.Reused != mode.warm {
					t.Errorf("reused = %v", wire.Reused)
				}
				if hasKey := srv.lastHead.Load().Header.Get("Idempotency-Key") != ""; hasKey != mode.allow {
					t.Errorf("the key was sent: %v", hasKey)
				}
				if resp.Status != fault.status {
					t.Errorf("status %d, want %d", resp.Status, fault.status)
				}
				switch {
				case fault.class == "" && f != nil:
					t.Errorf("failed: %v", f)
				case fault.class != "" && f == nil:
					t.Errorf("no failure, want %s", fault.class)
				case fault.class != "" && (f.Class != fault.class || !errors.Is(f, fault.err)):
					t.Errorf("failed with %v (%v), want %s with %v", f, f.Err, fault.class, fault.err)
				}
				if f != nil && strings.Contains(f.Message, "secret") {
					t.Errorf("the message repeats the answer: %s", f.Message)
				}
			})
		}
	}
}

// Connections that the server closed while they were idle are noticed, and what it does at the very moment of the next
// request is an ambiguous failure and not a repetition.
func TestI5_KeptConnectionsThatTheirServerCloses(t *testing.T) {
	t.Run("closed after the answer", func(t *testing.T) {
		closed := make(chan struct{}, 10)
		srv := newWireServer(t, func(conn net.Conn, _ int64) bool {
			say(conn, okAnswer)
			conn.Close()
			closed <- struct{}{}
			return false
		})
		c := NewClient(TransportConfig{KeepAlive: time.Minute})
		defer c.Close()
		for range 5 {
			if _, wire, f := do(t, c, srv.url(), true); f != nil || wire.Reused {
				t.Fatalf("%v, reused %v", f, wire.Reused)
			}
			<-closed
		}
		if n := srv.requests.Load(); n != 5 {
			t.Errorf("%d requests for 5 calls", n)
		}
	})
	t.Run("408 while idle", func(t *testing.T) {
		said := make(chan struct{}, 5)
		srv := newWireServer(t, func(conn net.Conn, _ int64) bool {
			ok := say(conn, okAnswer) && say(conn, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
			said <- struct{}{}
			return ok
		})
		c := NewClient(TransportConfig{KeepAlive: time.Minute})
		defer c.Close()
		for range 5 {
			if resp, _, f := do(t, c, srv.url(), false); f != nil || resp.Status != 200 {
				t.Fatalf("%v, status %d", f, resp.Status)
			}
			<-said // the 408 is there before the next call
		}
	})
	t.Run("answer says close", func(t *testing.T) {
		srv := newWireServer(t, func(conn net.Conn, _ int64) bool {
			return say(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
		})
		c := NewClient(TransportConfig{KeepAlive: time.Minute})
		defer c.Close()
		for range 3 {
			if _, wire, f := do(t, c, srv.url(), false); f != nil || wire.Reused {
				t.Fatalf("%v, reused %v", f, wire.Reused)
			}
		}
	})
	t.Run("too long idle", func(t *testing.T) {
		srv := newWireServer(t, func(conn net.Conn, _ int64) bool { return say(conn, okAnswer) })
		c := NewClient(TransportConfig{KeepAlive: time.Nanosecond})
		defer c.Close()
		for range 3 {
			if _, wire, f := do(t, c, srv.url(), false); f != nil || wire.Reused {
				t.Fatalf("%v, reused %v", f, wire.Reused)
			}
		}
	})
}

func TestI5_NothingSentIsZeroRequests(t *testing.T) {
	srv := newWireServer(t, func(conn net.Conn, _ int64) bool { return say(conn, okAnswer) })
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused.Close()
	plain := httptest.NewUnstartedServer(http.NotFoundHandler())
	plain.Config.ErrorLog = log.New(io.Discard, "", 0)
	plain.StartTLS() // its certificate is not known to us
	defer plain.Close()

	over := errors.New("the user left")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(over)
	for _, c := range []struct {
		name string
		url  string
		ctx  context.Context
		cfg  TransportConfig
		err  error
	}{
		{name: "refused", url: "http://" + refused.Addr().String(), err: syscall.ECONNREFUSED},
		{name: "unknown host", url: "http://nowhere.invalid", cfg: TransportConfig{Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}
		}}},
		{name: "bad certificate", url: plain.URL},
		{name: "TLS to a plain server", url: "https" + strings.TrimPrefix(srv.url(), "http"), cfg: TransportConfig{TLSTimeout: time.Minute}},
		{name: "context over", url: srv.url(), ctx: cancelled, err: over},
		{name: "context over, as context.Canceled too", url: srv.url(), ctx: cancelled, err: context.Canceled},
		{name: "context ends in the dial", url: srv.url(), err: over, ctx: func() context.Context {
			ctx, cancel := context.WithCancelCause(context.Background())
			return context.WithValue(ctx, cancelKey{}, cancel)
		}(), cfg: TransportConfig{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := net.Dial(network, addr)
			ctx.Value(cancelKey{}).(context.CancelCauseFunc)(over)
			return conn, err
		}}},
		{name: "strange scheme", url: "ftp://" + srv.ln.Addr().String()},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.ctx == nil {
				c.ctx = context.Background()
			}
			before := srv.lastHead.Load()
			_, wire, err := NewClient(c.cfg).Do(c.ctx, post(t, c.url, false))
			f := failureOf(t, err, wire)
			if f == nil || f.Class != NotSent || f.WireRequests != 0 {
				t.Fatalf("got %+v", f)
			}
			if c.err != nil && !errors.Is(f, c.err) {
				t.Errorf("%v is not in the chain of %v", c.err, f.Err)
			}
			if srv.lastHead.Load() != before {
				t.Error("a request arrived")
			}
		})
	}
}

type cancelKey struct{}

func TestI5_ContextThatEndsInTheHandshake(t *testing.T) {
	hello := make(chan struct{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		conn.Read(make([]byte, 1))
		close(hello)
		io.Copy(io.Discard, conn)
		conn.Close()
	}()
	left := errors.New("the user left")
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() { <-hello; cancel(left) }()
	_, wire, err := NewClient(TransportConfig{}).Do(ctx, post(t, "https://"+ln.Addr().String(), false))
	if f := failureOf(t, err, wire); f == nil || f.Class != NotSent || !errors.Is(f, left) {
		t.Errorf("%+v", f)
	}
	ln.Close()
	<-done
}

func TestI5_ContextThatEndsAfterTheRequestWasSent(t *testing.T) {
	left := errors.New("the user left")
	for _, c := range []struct {
		name  string
		begin string // what the server says before it hangs
		end   func(context.Context) (context.Context, context.CancelCauseFunc)
		class Class
		errs  []error
	}{
		{name: "cancelled", class: Cancelled, errs: []error{left, context.Canceled}, end: context.WithCancelCause},
		{name: "cancelled in the header", begin: "HTTP/1.1 200", class: Cancelled, errs: []error{left}, end: context.WithCancelCause},
		{name: "cancelled in the body", begin: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", class: Cancelled, errs: []error{left}, end: context.WithCancelCause},
		{name: "cancelled in a refusal's body", begin: "HTTP/1.1 429 No\r\nContent-Length: 9\r\n\r\n{", end: context.WithCancelCause},
		{name: "deadline", class: Ambiguous, errs: []error{left, context.DeadlineExceeded}, end: func(ctx context.Context) (context.Context, context.CancelCauseFunc) {
			ctx, cancel := context.WithTimeoutCause(ctx, 200*time.Millisecond, left)
			return ctx, func(error) { _ = cancel }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			srv := newWireServer(t, func(conn net.Conn, _ int64) bool {
				say(conn, c.begin)
				<-release
				return false
			})
			ctx, end := c.end(context.Background())
			go func() {
				<-srv.seen
				end(left)
			}()
			resp, wire, err := NewClient(TransportConfig{}).Do(ctx, post(t, srv.url(), false))
			close(release)
			f := failureOf(t, err, wire)
			if n := srv.requests.Load(); n != 1 || wire.Requests != 1 {
				t.Errorf("server saw %d requests, wire counted %d", n, wire.Requests)
			}
			if c.class == "" {
				// the refusal may or may not have been read by then
				if f == nil && resp.Status != 429 || f != nil && f.Class != Cancelled {
					t.Fatalf("got %+v, status %d", f, resp.Status)
				}
				return
			}
			if f == nil || f.Class != c.class {
				t.Fatalf("got %+v, want class %s", f, c.class)
			}
			for _, want := range c.errs {
				if !errors.Is(f, want) {
					t.Errorf("%v is not in the chain of %v", want, f.Err)
				}
			}
		})
	}
}

func TestHeaderTimeoutIsAmbiguous(t *testing.T) {
	release := make(chan struct{})
	srv := newWireServer(t, func(net.Conn, int64) bool { <-release; return false })
	defer close(release)
	_, wire, err := NewClient(TransportConfig{HeaderTimeout: 20 * time.Millisecond}).Do(context.Background(), post(t, srv.url(), false))
	f := failureOf(t, err, wire)
	if f == nil || f.Class != Ambiguous || !errors.Is(f, errHeaderTimeout) {
		t.Fatalf("got %+v", f)
	}
}

// A server may refuse a large request before it has read it; what it said counts.
func TestRefusalBeforeTheWholeRequestWasRead(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		buf := make([]byte, 1024)
		conn.Read(buf)
		say(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, conn)
		conn.Close()
	}()
	req, err := http.NewRequest(http.MethodPost, "http://"+ln.Addr().String(), strings.NewReader(strings.Repeat("x", 4<<20)))
	if err != nil {
		t.Fatal(err)
	}
	resp, wire, err := NewClient(TransportConfig{}).Do(context.Background(), req)
	if err != nil || resp.Status != 413 || wire.Requests != 1 {
		t.Errorf("status %d, %d requests, %v", resp.Status, wire.Requests, err)
	}
	ln.Close()
	<-done
}

// Over HTTP/2, net/http was measured to repeat one call thousands of times. An h2 server gets HTTP/1.1 here, once.
func TestI5_ServerThatOffersHTTP2(t *testing.T) {
	var requests atomic.Int64
	var proto atomic.Value
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		io.Copy(io.Discard, r.Body)
		proto.Store(r.Proto)
		if r.Header.Get("Abort") != "" {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "{}")
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	for _, keep := range []time.Duration{0, time.Minute} {
		c := NewClient(TransportConfig{KeepAlive: keep, AllowIdempotencyKey: true,
			TLS: &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}})
		defer c.Close()
		requests.Store(0)
		for i := range 4 {
			req := post(t, srv.URL, true)
			if i%2 == 1 {
				req.Header.Set("Abort", "yes")
			}
			resp, wire, err := c.Do(context.Background(), req)
			f := failureOf(t, err, wire)
			if wire.Requests != 1 || proto.Load() != "HTTP/1.1" {
				t.Errorf("%d requests over %v", wire.Requests, proto.Load())
			}
			if i%2 == 0 && (f != nil || string(resp.Body) != "{}") || i%2 == 1 && (f == nil || f.Class != Ambiguous) {
				t.Errorf("call %d: %v %q", i, f, resp.Body)
			}
			if wire.Reused != (keep > 0 && i%2 == 1) {
				t.Errorf("call %d: reused %v", i, wire.Reused)
			}
		}
		if n := requests.Load(); n != 4 {
			t.Errorf("%d requests for 4 calls", n)
		}
	}
}

// 5,000 calls are open at once; what one costs in this process must stay small. The listener is never accepted from:
// the kernel takes connections and requests, and no server shares our memory.
func TestMemoryOfAnOpenCall(t *testing.T) {
	const n = 1000
	per := measureOpenCalls(t, n)
	t.Logf("%.1f KiB a call", per/1024)
	if limit := 24.0 * 1024; per > limit {
		t.Errorf("an open call costs %.0f bytes, more than %.0f", per, limit)
	}
}

// The same of 5,000 in the middle of their streams, which a server in this process makes and holds.
func TestMemoryOfAStream(t *testing.T) {
	const n = 5000
	per := measureStreams(t, n)
	t.Logf("%.1f KiB a stream", per/1024)
	if limit := 32.0 * 1024; per > limit {
		t.Errorf("a call in mid-stream costs %.0f bytes, more than %.0f", per, limit)
	}
}
