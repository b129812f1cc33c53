package procs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// Counter counts the requests that pass it, by what find makes of each: of a request's first line and its body.
type Counter struct {
	*proxy.Proxy

	mu     sync.Mutex
	counts map[string]int
}

// Count stands before target and counts.
func Count(t testing.TB, target string, find func(request string) string) *Counter {
	t.Helper()
	c := &Counter{Proxy: listen(t, proxy.HTTP, target), counts: map[string]int{}}
	c.Rule(func(request string) proxy.Action {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.counts[find(request)]++
		return proxy.Forward
	})
	return c
}

// Counts returns what was counted so far.
func (c *Counter) Counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]int, len(c.counts))
	for k, n := range c.counts {
		out[k] = n
	}
	return out
}

// Front is a TLS server with a certificate of its own authority, which offers HTTP/2 and hands what it decrypts on.
type Front struct {
	Addr   string
	CAFile string

	mu     sync.Mutex
	agreed []string // protocols, one for each connection
}

// Agreed lists the protocols that connections have agreed on; empty: the client offered none.
func (f *Front) Agreed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.agreed)
}

// Secure stands before target with TLS, for the given host.
func Secure(t testing.TB, target, host string) *Front {
	t.Helper()
	cert, ca := certificate(t, host)
	f := &Front{CAFile: filepath.Join(t.TempDir(), "ca.pem")}
	if err := os.WriteFile(f.CAFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	f.Addr = serveConns(t, func(ctx context.Context, conn *net.TCPConn) {
		secured := tls.Server(conn, config)
		if secured.HandshakeContext(ctx) != nil {
			return
		}
		f.mu.Lock()
		f.agreed = append(f.agreed, secured.ConnectionState().NegotiatedProtocol)
		f.mu.Unlock()
		through(ctx, conn, secured, target)
	})
	return f
}

// certificate is of an authority that only the test knows.
func certificate(t testing.TB, host string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, DNSNames: []string{host},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Forwarder is an HTTP proxy, as HTTP_PROXY names one: whatever host is asked for, plain requests go to plain, and what
// CONNECT opens goes to secure. It breaks off what its servers break off.
func Forwarder(t testing.TB, plain, secure string) string {
	t.Helper()
	to := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: plain}) },
		Transport:     &http.Transport{DisableKeepAlives: true}, // on a kept connection it would repeat requests
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // breaking off is what it is for
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			to.ServeHTTP(w, r)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err == nil {
			through(context.Background(), conn.(*net.TCPConn), conn, secure)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() { server.Close(); serving.Wait() })
	return l.Addr().String()
}

// serveConns accepts connections until the end of the test, and waits for what is done with them.
func serveConns(t testing.TB, serve func(context.Context, *net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				serve(ctx, conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { end(); l.Close(); conns.Wait() })
	return l.Addr().String()
}

// through joins a client's stream, which runs over conn, with a new connection to target until one side ends, and then
// resets the client's if the server's was reset.
func through(ctx context.Context, conn *net.TCPConn, stream net.Conn, target string) {
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close(); server.Close() })
	defer stop()
	var pumps sync.WaitGroup
	pumps.Go(func() {
		_, _ = io.Copy(server, stream)
		server.Close()
	})
	if _, err := io.Copy(stream, server); err != nil && strings.Contains(err.Error(), "reset") {
		_ = conn.SetLinger(0)
		conn.Close()
	}
	stream.Close()
	pumps.Wait()
}

// ruleFor is a rule of the model in JSON: the text that a message must have, and the rule's other fields.
func ruleFor(text, fields string) string {
	return fmt.Sprintf(`{"match": {"contains": %q}, %s}`, text, fields)
}
