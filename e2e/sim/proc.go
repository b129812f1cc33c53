package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var errDead = errors.New("this process is dead")

// proc is the way of a process to everything outside of it: network, store, provider. A process that is killed or
// stands still does so by what passes here, since its goroutines cannot be stopped: nothing goes out and nothing comes
// in, and what it says to itself nobody hears.
type proc struct {
	name string
	net  dialer

	mu    sync.Mutex
	rand  *rand.Rand
	gate  chan struct{} // closed by resume; nil: it runs
	dead  chan struct{}
	conns map[*conn]struct{}
}

type dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

func newProc(name string, seed uint64, net dialer) *proc {
	h := seed
	for _, c := range []byte(name) {
		h = h*1099511628211 ^ uint64(c)
	}
	return &proc{name: name, net: net, rand: rand.New(rand.NewPCG(seed, h)), dead: make(chan struct{}), conns: map[*conn]struct{}{}}
}

// pass waits while the process stands still. errDead when it is dead.
func (p *proc) pass() error {
	for {
		p.mu.Lock()
		gate := p.gate
		p.mu.Unlock()
		if gate == nil {
			select {
			case <-p.dead:
				return errDead
			default:
				return nil
			}
		}
		select {
		case <-gate:
		case <-p.dead:
			return errDead
		}
	}
}

func (p *proc) pause() {
	p.mu.Lock()
	if p.gate == nil {
		p.gate = make(chan struct{})
	}
	p.mu.Unlock()
}

func (p *proc) resume() {
	p.mu.Lock()
	if p.gate != nil {
		close(p.gate)
		p.gate = nil
	}
	p.mu.Unlock()
}

// stands reports whether the process stands still.
func (p *proc) stands() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gate != nil
}

// kill ends it: its connections break, as the kernel breaks those of a process that ended.
func (p *proc) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.dead:
		return
	default:
		close(p.dead)
	}
	for c := range p.conns {
		_ = c.Conn.Close()
	}
}

// cut breaks the connections that it has; it may make new ones.
func (p *proc) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Conn.Close()
	}
}

func (p *proc) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// chance is true once in n times.
func (p *proc) chance(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rand.IntN(n) == 0
}

// upTo draws a duration below d.
func (p *proc) upTo(d time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.rand.Int64N(int64(d)))
}

// kafka is how the process reaches the brokers.
func (p *proc) kafka(seeds []string) []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.Dialer(p.dial), kgo.ClientID(p.name)}
}

func (p *proc) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := p.pass(); err != nil {
		return nil, err
	}
	inner, err := p.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, p: p}
	p.mu.Lock()
	p.conns[c] = struct{}{}
	p.mu.Unlock()
	if p.isDead() {
		_ = c.Close()
		return nil, errDead
	}
	return c, nil
}

// conn is a connection of a process.
type conn struct {
	net.Conn
	p *proc
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if dead := c.p.pass(); dead != nil {
		return 0, dead
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if err := c.p.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (c *conn) Close() error {
	c.p.mu.Lock()
	delete(c.p.conns, c)
	c.p.mu.Unlock()
	return c.Conn.Close()
}
