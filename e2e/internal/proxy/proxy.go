package proxy

import (
	"context"
	"net"
	"sync"
	"time"
)

// Direction is a way through the proxy.
type Direction int

// The two directions.
const (
	ToServer Direction = iota
	ToClient
)

// Mode is what happens to messages.
type Mode int

const (
	// Pass forwards.
	Pass Mode = iota
	// Hold keeps messages and forwards them once Pass is set: a network that heals.
	Hold
	// Drop swallows messages. A connection that has lost one stays mute in that direction for good, as its stream has a
	// hole; connections made after Pass is set are whole.
	Drop
)

// Action is what becomes of one request.
type Action int

const (
	// Forward passes the request on, and its answer.
	Forward Action = iota
	// LoseRequest resets the connection instead of passing the request on: it has not taken effect.
	LoseRequest
	// LoseAnswer passes the request on, waits for the whole answer and resets the connection instead of passing it on: it
	// has taken effect, and the client cannot know.
	LoseAnswer
)

// Rule decides about a request by its name: for Kafka that of its API ("OffsetCommit"), for Postgres the text of the
// statement that is executed, for HTTP the request's first line and its body. It is called once for each request, by several goroutines at once.
type Rule func(request string) Action

// Protocol is what the connections speak.
type Protocol int

// The protocols. Of Raw nothing is understood: a message is whatever arrives at once, and no Rule is asked.
const (
	Raw Protocol = iota
	Kafka
	Postgres
	HTTP
)

// Proxy forwards connections from its own address to a target.
type Proxy struct {
	protocol Protocol
	target   string
	listener net.Listener
	ctx      context.Context
	end      context.CancelFunc
	wg       sync.WaitGroup

	mu      sync.Mutex
	modes   [2]Mode
	delays  [2]time.Duration
	changed chan struct{} // closed and replaced when a mode changes
	refuse  bool
	rule    Rule
	conns   map[*conn]struct{}
}

// Listen starts a proxy on a free port of 127.0.0.1 that forwards to target.
func Listen(protocol Protocol, target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{protocol: protocol, target: target, listener: l, changed: make(chan struct{}), conns: map[*conn]struct{}{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is host:port of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set puts a direction of all connections, present and future, into a mode.
func (p *Proxy) Set(d Direction, m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.modes[d] = m
	close(p.changed)
	p.changed = make(chan struct{})
}

// Both puts both directions into a mode.
func (p *Proxy) Both(m Mode) { p.Set(ToServer, m); p.Set(ToClient, m) }

// Delay makes every message of a direction wait.
func (p *Proxy) Delay(d Direction, by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delays[d] = by
}

// Refuse resets new connections, or accepts them again.
func (p *Proxy) Refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = yes
}

// Rule sets what decides about requests; nil forwards all.
func (p *Proxy) Rule(r Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = r
}

// Cut resets all present connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.reset()
	}
}

// Heal ends every fault. Connections that have lost a message are reset.
func (p *Proxy) Heal() {
	p.mu.Lock()
	for c := range p.conns {
		if c.lost.Load() {
			c.reset()
		}
	}
	p.delays, p.refuse, p.rule = [2]time.Duration{}, false, nil
	p.mu.Unlock()
	p.Both(Pass)
}

// Close ends all connections and waits for its goroutines.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.end()
	p.Cut()
	p.wg.Wait()
	return err
}

// decide asks the rule. It is not called with p.mu held, so that it may use the proxy.
func (p *Proxy) decide(request string) Action {
	p.mu.Lock()
	rule := p.rule
	p.mu.Unlock()
	if rule == nil {
		return Forward
	}
	return rule(request)
}

// gate waits out delays and Hold. False: the message must not be forwarded.
func (p *Proxy) gate(ctx context.Context, d Direction) bool {
	p.mu.Lock()
	delay := p.delays[d]
	p.mu.Unlock()
	if delay > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(delay):
		}
	}
	for {
		p.mu.Lock()
		mode, changed := p.modes[d], p.changed
		p.mu.Unlock()
		if mode != Hold {
			return mode == Pass
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		c := &conn{p: p, client: client.(*net.TCPConn)}
		c.ctx, c.end = context.WithCancel(p.ctx)
		p.mu.Lock()
		refuse := p.refuse || p.ctx.Err() != nil
		if !refuse {
			p.conns[c] = struct{}{}
		}
		p.mu.Unlock()
		if refuse {
			c.reset()
			continue
		}
		p.wg.Go(c.run)
	}
}
