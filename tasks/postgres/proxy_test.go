package postgres

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between the store and the server. Armed, it lets the next transaction be committed, and cuts the
// connection instead of passing the server's answer on.
type proxy struct {
	listener net.Listener
	target   string
	armed    atomic.Bool
	lost     atomic.Int64
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: make(map[net.Conn]struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) loseAck() { p.armed.Store(true) }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		})
		p.wg.Go(func() {
			p.answers(client, server)
			_, _ = client.Close(), server.Close()
		})
	}
}

// answers passes on what the server says, one whole answer (up to ReadyForQuery) at a time.
func (p *proxy) answers(client, server net.Conn) {
	var answer []byte
	completed := false // a statement completed since the last ReadyForQuery
	for {
		var head [5]byte
		if _, err := io.ReadFull(server, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		answer = append(append(answer, head[:]...), body...)
		switch head[0] {
		case 'C':
			completed = true
			continue
		case 'Z':
			if completed && body[0] == 'I' && p.armed.CompareAndSwap(true, false) {
				p.lost.Add(1)
				return
			}
			completed = false
		default:
			if completed || p.armed.Load() && head[0] != 'R' {
				continue // R: authentication waits for the client
			}
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
		answer = answer[:0]
	}
}
