package procs

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

var runs = flag.Int("procs.runs", len(faults), "how many runs TestFaultsUnderLoad makes; each kind of fault has its turn")

// together is how many runs share the machine: they mostly wait.
const together = 4

// TestFaultsUnderLoad: one kind of fault a run, drawn in its details from the seed, and the same checks at the end of each.
// A run's name has its number; FENCEPOST_TEST_SEED and -test.run with that name draw the same details again.
func TestFaultsUnderLoad(t *testing.T) {
	drawn := seed(t)
	slots := make(chan struct{}, together)
	var all sync.WaitGroup
	for i := range *runs {
		kind := faults[i%len(faults)]
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(fmt.Sprintf("%d %s", i, kind.name), func(t *testing.T) { faultsOnce(t, kind, drawn, uint64(i)) })
		})
	}
	all.Wait()
}

func faultsOnce(t *testing.T, kind fault, drawn, number uint64) {
	w := NewOwnWorld(t, kind.own, 4, append([]string{"--lease", "2s", "--session-timeout", "3s", "--drain-timeout", "5s", "--max-attempts", "20"},
		modes[(int(number)+int(number)/len(faults))%len(modes)].flags...)...)
	w.Model.Rules(`[{"match": {"contains": "message 02"}, "times": 5, "do": "status", "status": 503}, {"latency": "250ms"}]`)
	r := &faultRun{T: t, w: w, random: rand.New(rand.NewPCG(drawn, number))}
	for i := range 2 {
		r.fronts = append(r.fronts, w.Proxied(fmt.Sprintf("front-%d", i+1), "api,dispatcher"))
		r.worker = append(r.worker, w.Proxied(fmt.Sprintf("worker-%d", i+1), "worker"))
	}
	nodes := append(r.fronts[:2:2], r.worker...)
	run(t, nodes...)
	watch := w.Watch()
	defer watch.Stop()
	load := begin(t, &Client{Key: w.Key, Nodes: r.fronts}, drawn+number, 24, 4, 1500*time.Millisecond)
	waitCalls(t, w.Model, 5)
	kind.do(r)
	for _, n := range nodes {
		n.Heal()
	}
	accepted := load.wait(t)
	w.waitFinished(t)
	w.waitCommitted(t)
	if err := watch.Stop(); err != nil {
		t.Error(err)
	}
	// Whatever it went through, a process works again, or has been started again.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, n := range nodes {
		if err := n.WaitReady(ctx); err != nil {
			t.Error(err)
		}
	}
	stop(t, nodes...)
	w.checkAll(t, watch, accepted, kind.deaf)
}
