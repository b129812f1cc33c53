package procs

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

// fault is one kind of thing that goes wrong while there is traffic.
type fault struct {
	name string
	own  Own  // what it kills
	deaf bool // requests may be lost on their way to the model
	do   func(r *faultRun)
}

// faultRun is an installation under traffic: two workers, two processes with API and dispatcher, each of the four with
// proxies of its own.
type faultRun struct {
	*testing.T
	w              *World
	random         *rand.Rand
	fronts, worker []*Node
}

// one draws a node.
func (r *faultRun) one(nodes []*Node) *Node { return nodes[r.random.IntN(len(nodes))] }

// any draws a node of any role.
func (r *faultRun) any() *Node { return r.one(append(r.fronts[:2:2], r.worker...)) }

// between waits for a drawn time.
func (r *faultRun) between(least, most time.Duration) {
	r.Helper()
	select {
	case <-r.Context().Done():
	case <-time.After(least + time.Duration(r.random.Int64N(int64(most-least)))):
	}
}

// must fails the run at an error of what is done to it.
func (r *faultRun) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// restart kills nodes and starts them again a little later.
func (r *faultRun) restart(nodes ...*Node) {
	for _, n := range nodes {
		r.must(n.Kill())
	}
	r.between(0, time.Second)
	for _, n := range nodes {
		r.must(n.Start())
	}
}

// still makes a node stand still for a while.
func (r *faultRun) still(n *Node, least, most time.Duration) {
	r.must(n.Pause())
	r.between(least, most)
	r.must(n.Resume())
}

// during is what a proxy does for a while.
func (r *faultRun) during(p *proxy.Proxy, d proxy.Direction, m proxy.Mode) {
	p.Set(d, m)
	r.between(500*time.Millisecond, 4*time.Second)
	p.Heal()
}

// The lease of a run is 2 s, its session 3 s.
var faults = []fault{
	{name: "worker killed", do: func(r *faultRun) { r.restart(r.one(r.worker)) }},
	{name: "both workers killed", do: func(r *faultRun) { r.restart(r.worker...) }},
	{name: "front killed", do: func(r *faultRun) { r.restart(r.one(r.fronts)) }},
	{name: "everything killed", do: func(r *faultRun) { r.restart(append(r.fronts[:2:2], r.worker...)...) }},
	{name: "worker killed again and again", do: func(r *faultRun) {
		for range 4 {
			r.restart(r.one(r.worker))
			r.between(100*time.Millisecond, 800*time.Millisecond)
		}
	}},
	{name: "worker still past its lease", do: func(r *faultRun) { r.still(r.one(r.worker), 2100*time.Millisecond, 2900*time.Millisecond) }},
	{name: "worker still past its session", do: func(r *faultRun) { r.still(r.one(r.worker), 4*time.Second, 5*time.Second) }},
	{name: "front still", do: func(r *faultRun) { r.still(r.one(r.fronts), time.Second, 4*time.Second) }},
	{name: "broker killed", own: Own{Broker: true}, do: func(r *faultRun) {
		r.w.Broker.Kill()
		r.between(0, time.Second)
		r.w.Broker.Restart()
	}},
	{name: "broker still", own: Own{Broker: true}, do: func(r *faultRun) {
		for range 3 {
			r.w.Broker.Pause()
			r.between(200*time.Millisecond, 2*time.Second)
			r.w.Broker.Resume()
			r.between(100*time.Millisecond, 500*time.Millisecond)
		}
	}},
	{name: "Postgres killed", own: Own{Postgres: true}, do: func(r *faultRun) {
		r.must(r.w.Server.Kill())
		r.between(0, time.Second)
		r.must(r.w.Server.Start())
	}},
	{name: "Postgres killed twice", own: Own{Postgres: true}, do: func(r *faultRun) {
		for range 2 {
			r.must(r.w.Server.Kill())
			r.must(r.w.Server.Start())
			r.between(100*time.Millisecond, time.Second)
		}
	}},
	{name: "Kafka cut", do: func(r *faultRun) {
		for range 5 {
			r.any().Kafka.Cut()
			r.between(50*time.Millisecond, 400*time.Millisecond)
		}
	}},
	{name: "Postgres cut", do: func(r *faultRun) {
		for range 5 {
			r.any().Postgres.Cut()
			r.between(50*time.Millisecond, 400*time.Millisecond)
		}
	}},
	{name: "Kafka refused", do: func(r *faultRun) {
		n := r.any()
		n.Kafka.Refuse(true)
		n.Kafka.Cut()
		r.between(500*time.Millisecond, 4*time.Second)
		n.Heal()
	}},
	{name: "Postgres refused", do: func(r *faultRun) {
		n := r.any()
		n.Postgres.Refuse(true)
		n.Postgres.Cut()
		r.between(500*time.Millisecond, 4*time.Second)
		n.Heal()
	}},
	{name: "to Kafka swallowed", do: func(r *faultRun) { r.during(r.any().Kafka, proxy.ToServer, proxy.Drop) }},
	{name: "from Kafka swallowed", do: func(r *faultRun) { r.during(r.any().Kafka, proxy.ToClient, proxy.Drop) }},
	{name: "to Postgres swallowed", do: func(r *faultRun) { r.during(r.any().Postgres, proxy.ToServer, proxy.Drop) }},
	{name: "from Postgres swallowed", do: func(r *faultRun) { r.during(r.any().Postgres, proxy.ToClient, proxy.Drop) }},
	{name: "to Kafka late", do: func(r *faultRun) { r.during(r.one(r.worker).Kafka, proxy.ToServer, proxy.Hold) }},
	{name: "from Kafka late", do: func(r *faultRun) { r.during(r.one(r.worker).Kafka, proxy.ToClient, proxy.Hold) }},
	{name: "to Postgres late", do: func(r *faultRun) { r.during(r.one(r.worker).Postgres, proxy.ToServer, proxy.Hold) }},
	{name: "from Postgres late", do: func(r *faultRun) { r.during(r.one(r.worker).Postgres, proxy.ToClient, proxy.Hold) }},
	{name: "acknowledgements lost", do: func(r *faultRun) {
		n := r.any()
		for _, p := range []*proxy.Proxy{n.Kafka, n.Postgres} {
			p.Rule(r.losing("OffsetCommit", "Produce", claiming, saving, forgetting, "commit"))
		}
		r.between(time.Second, 3*time.Second)
		n.Heal()
	}},
	{name: "worker cut off from all", deaf: true, do: func(r *faultRun) {
		n := r.one(r.worker)
		n.Kafka.Both(proxy.Drop)
		n.Postgres.Both(proxy.Drop)
		n.LLM.Both(proxy.Drop)
		r.between(2*time.Second, 5*time.Second)
		n.Heal()
	}},
	{name: "model cut", deaf: true, do: func(r *faultRun) {
		for range 4 {
			r.one(r.worker).LLM.Cut()
			r.between(100*time.Millisecond, 600*time.Millisecond)
		}
	}},
	{name: "everything slow", do: func(r *faultRun) {
		for _, n := range append(r.fronts[:2:2], r.worker...) {
			for _, p := range []*proxy.Proxy{n.Kafka, n.Postgres} {
				p.Delay(proxy.ToServer, time.Duration(r.random.Int64N(int64(60*time.Millisecond))))
				p.Delay(proxy.ToClient, time.Duration(r.random.Int64N(int64(60*time.Millisecond))))
			}
		}
		r.between(2*time.Second, 4*time.Second)
		for _, n := range append(r.fronts[:2:2], r.worker...) {
			n.Heal()
		}
	}},
}

// losing loses one in three of the named requests' answers.
func (r *faultRun) losing(what ...string) proxy.Rule {
	random := rand.New(rand.NewPCG(r.random.Uint64(), r.random.Uint64()))
	var mu sync.Mutex
	return func(request string) proxy.Action {
		if !slices.ContainsFunc(what, func(name string) bool { return isRequest(request, name) }) {
			return proxy.Forward
		}
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(3) == 0 {
			return proxy.LoseAnswer
		}
		return proxy.Forward
	}
}
