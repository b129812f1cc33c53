package sim

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/e2e/history"
)

var (
	seeds = flag.Int("sim.seeds", 0, "how many seeds to run; 0: 600, with the race detector 60")
	first = flag.Uint64("sim.first", 1, "the first of them")
	one   = flag.Uint64("sim.seed", 0, "run this seed alone, and print what the processes log")
	out   = flag.String("sim.out", "", "where histories of failed seeds go; a new temporary folder when empty")
)

// sometimes is what must happen in a run of many seeds.
var sometimes = []string{
	"rebalance with work in flight", "ambiguous commit", "commit refused", "commit with records ahead",
	"settle: complete taken_over", "settle: complete lease_expired", "settle: complete accepted", "settle: complete cancelled",
	"settle with a handoff", "takeover", "claim: leased", "claim: not_due", "claim: handed_off", "claim: finished", "claim: missing",
	"retry after rate_limited", "retry after overloaded", "budget spent", "failed: deadline",
	"lost acknowledgement: Claim", "lost acknowledgement: Settle", "lost acknowledgement: Submit", "lost acknowledgement: Delete",
	"lost acknowledgement: Renew", "store away", "dispatcher killed before its delete", "lost task recovered", "dead letter",
	"cancel after a claim", "key reused: refused", "submission sent again", "another workspace's task: not found",
	"place refused to a former owner",
}

// enough is how many seeds it takes for everything that should happen to happen.
const enough = 250

// TestSimulation_I1ToI8HoldOnEverySeed runs the seeds, in a process of its own: see the package comment.
func TestSimulation_I1ToI8HoldOnEverySeed(t *testing.T) {
	if *seeds == 0 {
		if *seeds = 600; raced {
			*seeds = 60
		}
	}
	if !durable {
		again(t)
		return
	}
	if *one != 0 {
		t.Run(fmt.Sprintf("seed=%d", *one), func(t *testing.T) { try(t, *one, map[string]int{}, new(sync.Mutex)) })
		return
	}
	counts, mu := map[string]int{}, new(sync.Mutex)
	t.Run("seeds", func(t *testing.T) {
		for i := range *seeds {
			seed := *first + uint64(i)
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				try(t, seed, counts, mu)
			})
		}
	})
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%7d  %s", counts[what], what)
	}
	for _, what := range sometimes {
		if counts[what] == 0 && *seeds >= enough && !t.Failed() {
			t.Errorf("never happened: %s", what)
		}
	}
	for _, f := range faults {
		if counts["fault: "+f.name] == 0 && *seeds >= enough && !t.Failed() {
			t.Errorf("never happened: %s", f.name)
		}
	}
}

// again runs this test with the build tag.
func again(t *testing.T) {
	dir := *out
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "fencepost-sim-"); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"test", "-tags=synctests", fmt.Sprintf("-race=%t", raced), "-count=1", "-v", "-timeout=" + timeout(t).String(), "-run=^" + t.Name() + "$", ".",
		"-args", fmt.Sprintf("-sim.seeds=%d", *seeds), fmt.Sprintf("-sim.first=%d", *first), fmt.Sprintf("-sim.seed=%d", *one), "-sim.out=" + dir}
	run := exec.CommandContext(t.Context(), "go", args...)
	output, err := run.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, strings.Join(interesting(string(output)), "\n"))
		return
	}
	_ = os.Remove(dir) // empty, then
	if *one != 0 {
		t.Logf("%s", output)
		return
	}
	for _, line := range interesting(string(output)) {
		t.Log(line)
	}
}

func timeout(t *testing.T) time.Duration {
	deadline, ok := t.Deadline()
	if !ok {
		return 24 * time.Hour
	}
	return max(time.Until(deadline)-5*time.Second, time.Second)
}

// interesting leaves out that seeds began and passed.
func interesting(output string) []string {
	return slices.DeleteFunc(strings.Split(output, "\n"), func(line string) bool {
		line = strings.TrimSpace(line)
		return strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- PASS") || line == ""
	})
}

// try runs one seed and judges it.
func try(t *testing.T, seed uint64, counts map[string]int, mu *sync.Mutex) {
	var log *bytes.Buffer
	var r Result
	began := time.Now()
	synctest.Test(t, func(*testing.T) {
		if *one != 0 {
			log = new(bytes.Buffer)
			r = run(seed, &locked{w: log})
			return
		}
		r = run(seed, nil)
	})
	if log != nil {
		t.Logf("%s", log)
	}
	r.Violations = history.Check(r.Events)
	mu.Lock()
	for what, n := range r.Counts {
		counts[what] += n
	}
	counts["seconds of virtual time"] += int(r.Virtual.Seconds())
	counts["events"] += len(r.Events)
	mu.Unlock()
	if *one != 0 {
		t.Logf("%s%d events, %s", r.describeProblems(), len(r.Events), time.Since(began))
	}
	if len(r.Problems)+len(r.Violations) == 0 {
		return
	}
	t.Errorf("%sreplay: go test ./e2e/sim -sim.seed %d", r.describeProblems(), seed)
	if err := keep(r); err != nil {
		t.Error(err)
	}
}

// keep writes the history where whoever looks into the failure finds it.
func keep(r Result) error {
	dir := *out
	if dir == "" {
		dir = os.TempDir()
	}
	path := filepath.Join(dir, fmt.Sprintf("seed-%d.jsonl", r.Seed))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	fmt.Printf("history of seed %d: %s\n", r.Seed, path)
	if err := history.Encode(f, r.Events); err != nil {
		return err
	}
	return f.Close()
}

// locked is a writer for many.
type locked struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
