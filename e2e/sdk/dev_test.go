package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/e2e/internal/child"
	"github.com/fencepost/fencepost/e2e/procs"
)

var packages = flag.String("sdk.packages", "", "the `folder` that run.sh has filled; without it nothing is run")

func TestMain(m *testing.M) { os.Exit(procs.Main(m).Run()) }

// patience bounds what a test waits for; only a failing test waits that long.
const patience = time.Minute

// installed is where run.sh has put something.
func installed(t *testing.T, path string) string {
	t.Helper()
	if *packages == "" {
		t.Skip("packages of PyPI and npm are wanted: e2e/sdk/run.sh fetches them and runs this")
	}
	return filepath.Join(*packages, path)
}

// installation is a running fencepost dev, as it announces itself.
type installation struct {
	API string `json:"api"`
	LLM string `json:"llm"`
	Key string `json:"api_key"`

	t       *testing.T
	process *child.Child
	log     string
}

func startDev(t *testing.T, flags ...string) *installation {
	t.Helper()
	d := &installation{t: t, log: filepath.Join(t.TempDir(), "dev.log")}
	args := append([]string{"dev", "-o", "json", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "text", "--log-level", "error"}, flags...)
	var err error
	if d.process, err = child.Start(d.log, os.Environ(), procs.Binary(t), args...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.process.Signal(syscall.SIGTERM)
		select {
		case <-d.process.Done():
		case <-time.After(patience):
			_ = d.process.Signal(syscall.SIGKILL)
			<-d.process.Done()
		}
		if code := d.process.ExitCode(); code != 0 || t.Failed() {
			t.Errorf("dev ends with code %d; its log ends with:\n%s", code, child.Tail(d.log, 4<<10))
		}
	})
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		log, _ := os.ReadFile(d.log)
		for line := range bytes.Lines(log) {
			if bytes.HasPrefix(line, []byte(`{"api":`)) && bytes.HasSuffix(line, []byte("\n")) {
				if err := json.Unmarshal(line, d); err != nil {
					t.Fatal(err)
				}
				return d
			}
		}
		if !d.process.Alive() || time.Now().After(end) {
			t.Fatalf("dev is not ready:\n%s", child.Tail(d.log, 4<<10))
		}
	}
}

// model talks to the simulated model's control routes.
func (d *installation) model(method, path, body string, answer any) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, d.LLM+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, b)
	}
	if err == nil && answer != nil {
		err = json.Unmarshal(b, answer)
	}
	if err != nil {
		d.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// calls counts the requests that reached the model, by the last message of the user's.
func (d *installation) calls() map[string]int {
	d.t.Helper()
	var list []struct {
		Content string `json:"content"`
	}
	d.model(http.MethodGet, "/sim/requests", "", &list)
	counts := map[string]int{}
	for _, c := range list {
		counts[c.Content]++
	}
	return counts
}
