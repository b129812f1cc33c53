package llm

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxyServer answers CONNECT with a tunnel, or with status when that is not 0, and plain requests with their target.
func proxyServer(t *testing.T, status string) (addr string, heads func() []*http.Request) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []*http.Request
	var wg sync.WaitGroup
	var serve func(net.Conn)
	serve = func(conn net.Conn) {
		defer conn.Close()
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		mu.Lock()
		seen = append(seen, req)
		mu.Unlock()
		if status != "" {
			say(conn, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n")
			return
		}
		if req.Method != http.MethodConnect {
			io.Copy(io.Discard, req.Body)
			if say(conn, okAnswer) {
				serve(conn)
			}
			return
		}
		up, err := net.Dial("tcp", req.URL.Host)
		if err != nil {
			return
		}
		say(conn, "HTTP/1.1 200 Connected\r\n\r\n")
		var pipes sync.WaitGroup
		pipes.Go(func() { io.Copy(up, conn); up.Close() })
		pipes.Go(func() { io.Copy(conn, up); conn.Close() })
		pipes.Wait()
	}
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String(), func() []*http.Request { mu.Lock(); defer mu.Unlock(); return seen }
}

func TestProxy(t *testing.T) {
	target := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != "" {
			t.Error("the proxy's password reached the server")
		}
		io.WriteString(w, "{}")
	}))
	defer target.Close()
	roots := x509.NewCertPool()
	roots.AddCert(target.Certificate())
	client := func(proxy string) *Client {
		u, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		return NewClient(TransportConfig{Proxy: http.ProxyURL(u), KeepAlive: time.Minute, TLS: &tls.Config{RootCAs: roots}})
	}
	t.Run("tunnel", func(t *testing.T) {
		addr, heads := proxyServer(t, "")
		c := client("http://user:hushhush@" + addr)
		defer c.Close()
		resp, wire, f := do(t, c, target.URL, false)
		if f != nil || wire.Requests != 1 || string(resp.Body) != "{}" {
			t.Fatalf("%v, %+v", f, wire)
		}
		if h := heads(); len(h) != 1 || h[0].Method != "CONNECT" || h[0].Header.Get("Proxy-Authorization") == "" {
			t.Errorf("the proxy saw %v", h)
		}
	})
	t.Run("plain", func(t *testing.T) {
		addr, heads := proxyServer(t, "")
		c := client("http://user:hushhush@" + addr)
		defer c.Close()
		for i := range 2 {
			_, wire, f := do(t, c, "http://model.example/v1/x", false)
			if f != nil || wire.Requests != 1 || wire.Reused != (i == 1) {
				t.Fatalf("%v, %+v", f, wire)
			}
			if h := heads(); len(h) != i+1 || h[i].RequestURI != "http://model.example/v1/x" || h[i].Header.Get("Proxy-Authorization") == "" {
				t.Errorf("the proxy saw %v", h)
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		addr, _ := proxyServer(t, "407 Who")
		_, wire, f := do(t, client("http://user:hushhush@"+addr), target.URL, false)
		if f == nil || f.Class != NotSent || wire.Requests != 0 || !strings.Contains(f.Message, "407") {
			t.Fatalf("%v, %+v", f, wire)
		}
		if strings.Contains(f.Message, "hushhush") {
			t.Error("the proxy's password is in the message")
		}
	})
	t.Run("unsupported", func(t *testing.T) {
		if _, _, f := do(t, client("socks5://127.0.0.1:1"), target.URL, false); f == nil || f.Class != NotSent {
			t.Fatalf("%v", f)
		}
	})
}
