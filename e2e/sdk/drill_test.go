package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/e2e/internal/proxy"
)

const (
	keys    = 30
	repeats = 4
)

func TestPython(t *testing.T) {
	drill(t, "python", installed(t, "venv/bin/python"), "drill.py")
}

func TestJavaScript(t *testing.T) {
	// Node looks for packages beside the program.
	program := filepath.Join(installed(t, ""), "drill.mjs")
	source, err := os.ReadFile("drill.mjs")
	if err == nil {
		err = os.WriteFile(program, source, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	drill(t, "javascript", "node", program)
}

// result is a line of a drill.
type result struct {
	Key    string `json:"key"`
	Stream bool   `json:"stream"`
	ID     string `json:"id"`
	Text   string `json:"text"`
	Finish string `json:"finish"`
	Tokens int    `json:"tokens"`
	Tries  int    `json:"tries"`
}

// drill: an official SDK with its own retries, through a proxy that resets connections before the request, behind it and
// in the middle of answers, gets the same answer for each key every time, and the model is called once for each.
func drill(t *testing.T, name string, command ...string) {
	d := startDev(t)
	d.model(http.MethodPut, "/sim/rules", `[{"match":{"contains":"drill"},"latency":"150ms","chunk_latency":"15ms"}]`, nil)
	network, err := proxy.Listen(proxy.HTTP, strings.TrimPrefix(d.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	var asked, lost, cuts atomic.Int64
	network.Rule(func(string) proxy.Action {
		asked.Add(1)
		switch rand.N(5) {
		case 0:
			lost.Add(1)
			return proxy.LoseRequest
		case 1:
			lost.Add(1)
			return proxy.LoseAnswer
		}
		return proxy.Forward
	})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(200*time.Millisecond + rand.N(600*time.Millisecond)):
				network.Cut()
				cuts.Add(1)
			}
		}
	})
	out, err := run(t, d, "http://"+network.Addr()+"/v1", append(command, name, fmt.Sprint(keys), fmt.Sprint(repeats))...)
	close(stop)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	check(t, d, name, out)
	t.Logf("%d requests, of which %d were lost, and %d cuts", asked.Load(), lost.Load(), cuts.Load())
	if asked.Load() <= keys*repeats || lost.Load() == 0 || cuts.Load() == 0 {
		t.Error("nothing went wrong on the way: the drill shows nothing")
	}
}

func check(t *testing.T, d *installation, name string, out []byte) {
	t.Helper()
	first := map[string]result{}
	lines, streamed := 0, 0
	for line := range bytes.Lines(out) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines++
		if r.Stream {
			streamed++
		}
		key := r.Key
		r.Key, r.Stream, r.Tries = "", false, 0
		if was, ok := first[key]; ok && was != r {
			t.Errorf("%s is answered differently:\n%+v\n%+v", key, was, r)
		}
		first[key] = r
		if r.Text == "" || r.Finish != "stop" || r.Tokens == 0 || !strings.HasPrefix(r.ID, "chatcmpl-") {
			t.Errorf("%s: %+v", key, r)
		}
	}
	if lines != keys*repeats || len(first) != keys || streamed == 0 || streamed == lines {
		t.Errorf("%d answers, %d streamed, of %d keys", lines, streamed, len(first))
	}
	counts := d.calls()
	for k := range keys {
		if n := counts[fmt.Sprintf("drill %s-%d;", name, k)]; n != 1 {
			t.Errorf("key %d: the model was called %d times", k, n)
		}
	}
	if len(counts) != keys {
		t.Errorf("the model was asked %d things, want %d: %v", len(counts), keys, counts)
	}
}

// run runs a client of the API as anyone would, with the SDK's own two variables, and returns what it printed.
func run(t *testing.T, d *installation, base string, command ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+base, "OPENAI_API_KEY="+d.Key)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", strings.Join(command, " "), err, out, stderr.Bytes())
	}
	return out, err
}
