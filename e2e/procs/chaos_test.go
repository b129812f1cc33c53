package procs

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// seed returns the seed of this run's faults: FENCEPOST_TEST_SEED to see a failure again, else a new one.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if text := os.Getenv("FENCEPOST_TEST_SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("FENCEPOST_TEST_SEED: %v", err)
		}
	}
	t.Logf("FENCEPOST_TEST_SEED=%d draws the same faults", s)
	return s
}

// chaos kills one or two of the nodes at a time and starts them again, until ctx is done; then all run.
func chaos(ctx context.Context, t *testing.T, random *rand.Rand, nodes []*Node) {
	pause := func(least, most time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(least + rand.N(most-least)):
		}
	}
	for {
		pause(200*time.Millisecond, 1200*time.Millisecond)
		if ctx.Err() != nil {
			return
		}
		random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		victims := nodes[:1+random.IntN(2)]
		for _, n := range victims {
			if err := n.Kill(); err != nil {
				t.Error(err)
			}
		}
		pause(0, 800*time.Millisecond)
		for _, n := range victims {
			if err := n.Start(); err != nil {
				t.Error(err)
			}
		}
	}
}
