package llm

import (
	"sync"
	"time"
)

// maxIdle bounds the connections a Client keeps; more are closed when their call ends.
const maxIdle = 1024

// idleConns keeps connections between calls, last in first out, so that the fewest stay warm. One timer closes the
// oldest ones; there is no goroutine.
type idleConns struct {
	keep time.Duration

	mu     sync.Mutex
	conns  []*wireConn // oldest first
	timer  *time.Timer
	closed bool
}

// take returns a connection to key that its server has not closed yet, or nil.
func (p *idleConns) take(key string) *wireConn {
	if p.keep <= 0 {
		return nil
	}
	for {
		conn := p.pop(key)
		if conn == nil {
			return nil
		}
		if time.Since(conn.idleFrom) < p.keep && quiet(conn.raw.Conn) {
			conn.reused, conn.reusable, conn.base = true, false, conn.raw.written
			return conn
		}
		conn.Close()
	}
}

func (p *idleConns) pop(key string) *wireConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.conns) - 1; i >= 0; i-- {
		if conn := p.conns[i]; conn.key == key {
			p.conns = append(p.conns[:i], p.conns[i+1:]...)
			return conn
		}
	}
	return nil
}

func (p *idleConns) put(conn *wireConn) {
	conn.idleFrom = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.conns) >= maxIdle {
		conn.Close()
		return
	}
	p.conns = append(p.conns, conn)
	if p.timer == nil {
		p.timer = time.AfterFunc(p.keep, p.expire)
	}
}

func (p *idleConns) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.conns) && time.Since(p.conns[n].idleFrom) >= p.keep {
		p.conns[n].Close()
		n++
	}
	p.conns = append(p.conns[:0], p.conns[n:]...)
	p.timer = nil
	if len(p.conns) > 0 && !p.closed {
		p.timer = time.AfterFunc(p.keep-time.Since(p.conns[0].idleFrom), p.expire)
	}
}

func (p *idleConns) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
	if p.timer != nil {
		p.timer.Stop()
	}
}
