package llm

import (
	"context"
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

type signalConn struct {
	net.Conn
	written *atomic.Int64
}

func (c signalConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(1)
	return n, err
}
