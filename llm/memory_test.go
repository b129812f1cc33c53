package llm

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// measureOpenCalls returns the heap and stack bytes of one of n calls that wait for their answer.
func measureOpenCalls(t *testing.T, n int) float64 {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var written atomic.Int64
	c := NewClient(TransportConfig{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return signalConn{conn, &written}, err
	}})
	body := strings.Repeat("x", 500)
	ctx, cancel := context.WithCancel(context.Background())
	before := memory()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			req, err := http.NewRequest(http.MethodPost, "http://"+ln.Addr().String(), strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			_, _, err = c.Do(ctx, req)
			if f, ok := err.(*Failure); !ok || f.Class != Cancelled {
				t.Errorf("%v", err)
			}
		})
	}
	for deadline := time.Now().Add(time.Minute); written.Load() < int64(n); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("only %d of %d calls were sent", written.Load(), n)
		}
	}
	after := memory()
	cancel()
	wg.Wait()
	return float64(after-before) / float64(n)
}

func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// measureStreams returns the heap and stack bytes of one of n calls in the middle of their streams, the server's end of the
// connection included.
func measureStreams(t *testing.T, n int) float64 {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var server sync.WaitGroup
	conns := make([]net.Conn, 0, n)
	server.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, chunked("data: "+strings.Repeat("x", 300)+"\n\n", "data: "))
			conns = append(conns, conn)
		}
	})
	c := NewClient(TransportConfig{Idle: time.Hour})
	body := strings.Repeat("x", 500)
	ctx, cancel := context.WithCancel(context.Background())
	before := memory()
	var wg sync.WaitGroup
	var begun atomic.Int64
	for range n {
		wg.Go(func() {
			req, err := http.NewRequest(http.MethodPost, "http://"+ln.Addr().String(), strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			_, _, err = c.Stream(ctx, req, func(Event) bool { begun.Add(1); return true })
			if f, ok := err.(*Failure); !ok || f.Class != Cancelled {
				t.Errorf("%v", err)
			}
		})
	}
	for deadline := time.Now().Add(time.Minute); begun.Load() < int64(n); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("only %d of %d streams began", begun.Load(), n)
		}
	}
	after := memory()
	cancel()
	wg.Wait()
	ln.Close()
	server.Wait()
	for _, conn := range conns {
		conn.Close()
	}
	return float64(after-before) / float64(n)
}

type signalConn struct {
	net.Conn
	written *atomic.Int64
}

func (c signalConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(1)
	return n, err
}
