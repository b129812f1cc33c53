package proxy

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// conn is one connection through the proxy.
type conn struct {
	p      *Proxy
	ctx    context.Context
	end    context.CancelFunc
	client *net.TCPConn
	lost   atomic.Bool // a message was dropped

	mu     sync.Mutex
	server *net.TCPConn // nil until it is dialled
}

// wire cuts the bytes of a connection into messages. Each direction has its own goroutine.
type wire interface {
	// request reads the next message of the client. name is empty when no rule has a say in it; lose makes the connection
	// end in place of the message's answer.
	request(r *bufio.Reader) (m []byte, name string, lose func(), err error)
	// answer reads the next message of the server. lost: it ends an answer that is to be lost, or is part of one.
	answer(r *bufio.Reader) (m []byte, lost, over bool, err error)
}

func (c *conn) run() {
	defer c.end()
	defer func() {
		c.reset()
		c.p.mu.Lock()
		delete(c.p.conns, c)
		c.p.mu.Unlock()
	}()
	var d net.Dialer
	server, err := d.DialContext(c.ctx, "tcp", c.p.target)
	if err != nil {
		return
	}
	c.mu.Lock()
	c.server = server.(*net.TCPConn)
	c.mu.Unlock()
	if c.ctx.Err() != nil {
		return // reset while it was dialled
	}
	var w wire = raw{}
	switch c.p.protocol {
	case Kafka:
		w = newKafka(c.p.Addr())
	case Postgres:
		w = newPostgres()
	case HTTP:
		w = new(httpWire)
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { c.toServer(w) })
	pumps.Go(func() { c.toClient(w) })
	pumps.Wait()
}

// reset ends both sides with a RST: neither end takes it for an orderly goodbye.
func (c *conn) reset() {
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.client.SetLinger(0)
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.SetLinger(0)
		_ = c.server.Close()
	}
}

func (c *conn) toServer(w wire) {
	r := bufio.NewReaderSize(c.client, 64<<10)
	mute := false
	for {
		m, name, lose, err := w.request(r)
		if err != nil {
			c.goodbye(c.server)
			return
		}
		if mute = mute || !c.p.gate(c.ctx, ToServer); mute {
			c.lost.Store(true)
			continue
		}
		if name != "" {
			switch c.p.decide(name) {
			case LoseRequest:
				c.reset()
				return
			case LoseAnswer:
				lose()
			}
		}
		if _, err := c.server.Write(m); err != nil {
			c.reset()
			return
		}
	}
}

func (c *conn) toClient(w wire) {
	r := bufio.NewReaderSize(c.server, 64<<10)
	mute := false
	for {
		m, lost, over, err := w.answer(r)
		if err != nil {
			c.goodbye(c.client)
			return
		}
		if lost {
			if over {
				c.reset()
				return
			}
			continue
		}
		if mute = mute || !c.p.gate(c.ctx, ToClient); mute {
			c.lost.Store(true)
			continue
		}
		if _, err := c.client.Write(m); err != nil {
			c.reset()
			return
		}
	}
}

// goodbye hands an end of one direction on, so that half-closed connections stay half-closed.
func (c *conn) goodbye(to *net.TCPConn) {
	if c.ctx.Err() != nil || to.CloseWrite() != nil {
		c.reset()
	}
}

// raw understands nothing.
type raw struct{}

func (raw) request(r *bufio.Reader) ([]byte, string, func(), error) {
	m, err := whatever(r)
	return m, "", nil, err
}

func (raw) answer(r *bufio.Reader) ([]byte, bool, bool, error) {
	m, err := whatever(r)
	return m, false, false, err
}

// whatever returns what has arrived.
func whatever(r *bufio.Reader) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	m := make([]byte, r.Buffered())
	n, err := r.Read(m)
	return m[:n], err
}
