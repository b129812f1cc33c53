package procs

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var clocks = flag.Bool("procs.clock", false, "run TestI4_WrongClocks, which builds the standard library anew: a minute the first time")

// shift is what the standard library's clock gets: the shift in the environment, in seconds.
const shift = `	sec += testShift
`

const shiftSource = `
var testShift = func() int64 {
	text, _ := syscall.Getenv("TEST_CLOCK_SHIFT")
	n, sign := int64(0), int64(1)
	for _, c := range []byte(text) {
		if c == '-' {
			sign = -1
			continue
		}
		n = 10*n + int64(c-'0')
	}
	return sign * n
}()
`

// TestI4_WrongClocks: the API, the dispatcher and one worker are an hour ahead, another worker an hour behind. Only the
// database's clock decides, so nothing is called twice, given up, or late. (No library can shift the clock of a Go program
// from outside: it asks the kernel without one. So the program is built with a time package whose Now is wrong. That no
// statement is given an instant of ours, which is the reason, is shown in e2e always.)
func TestI4_WrongClocks(t *testing.T) {
	if !*clocks {
		t.Skip("a minute of building: -procs.clock")
	}
	program := withShiftedClock(t)
	w := NewWorld(t, 8, quick...)
	w.Model.Rules(`[{"match": {"contains": "message 01"}, "times": 10, "do": "status", "status": 503}, {"latency": "3s"}]`) // beyond the lease
	front, ahead, behind := w.Node("front", "api,dispatcher"), w.Node("ahead", "worker"), w.Node("behind", "worker")
	for n, seconds := range map[*Node]string{front: "3600", ahead: "3600", behind: "-3600"} {
		n.binary, n.env = program, []string{"TEST_CLOCK_SHIFT=" + seconds}
	}
	run(t, front, ahead, behind)
	w.waitMembers(t, 2)
	watch := w.Watch()
	defer watch.Stop()
	accepted := begin(t, &Client{Key: w.Key, Nodes: []*Node{front}}, seed(t), 30, 3, time.Second).wait(t)
	w.waitFinished(t)
	w.waitCommitted(t)
	if err := watch.Stop(); err != nil {
		t.Error(err)
	}
	stop(t, front, ahead, behind)
	w.checkAll(t, watch, accepted, false)
	for content, n := range w.Model.arrived() {
		if s := w.states(t)[content]; n != s.Attempts || s.Interruptions != 0 || n != 1+strings.Count(s.Outcomes, "failed") {
			t.Errorf("%d requests for %+v", n, s)
		}
	}
	// The clocks were wrong, or nothing is shown.
	for n, hour := range map[*Node]time.Duration{front: time.Hour, ahead: time.Hour, behind: -time.Hour} {
		_, text, ok := strings.Cut(n.Log(), "time=")
		text, _, _ = strings.Cut(text, " ")
		at, err := time.Parse(time.RFC3339, text)
		if off := time.Until(at) - hour; !ok || err != nil || off.Abs() > 10*time.Minute {
			t.Errorf("%s has the clock %q", n.Name, text)
		}
	}
}

// withShiftedClock builds the program with a wrong time.Now.
func withShiftedClock(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(source), "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n")
	if !ok {
		t.Fatal("time.Now is not written as it was: this test must learn how it is now")
	}
	head = strings.Replace(head, "import (\n", "import (\n\t\"syscall\"\n", 1)
	changed := head + "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n" + shift + rest + shiftSource
	files := map[string]string{"time.go": changed}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: filepath.Join(dir, "time.go")}})
	if err != nil {
		t.Fatal(err)
	}
	files["overlay.json"] = string(overlay)
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "fencepost")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./cmd/fencepost")
	build.Dir = sourceRoot()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("go build: %w\n%s", err, out))
	}
	return program
}
