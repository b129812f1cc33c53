package procs

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// TestKcatReadsOurRecords: what is in the topic is for every tool: the key names the conversation, the value is JSON that
// points at the task, the headers are text.
func TestKcatReadsOurRecords(t *testing.T) {
	path, err := exec.LookPath("kcat")
	if err != nil {
		t.Fatalf("kcat is not on this machine (%v); Debian's package is kcat, and .ci/run installs it", err)
	}
	t.Parallel()
	w := NewWorld(t, 3)
	node := w.Node("all", "api,dispatcher,worker")
	run(t, node)
	const n = 30
	send(t, &Client{Key: w.Key, Nodes: []*Node{node}}, n)
	w.waitPublished(t)

	out, err := exec.CommandContext(t.Context(), path, "-C", "-q", "-e", "-b", strings.Join(w.Brokers, ","), "-t", w.Topic,
		"-o", "beginning", "-f", `%k\t%s\t%h\n`).Output()
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for line := range strings.Lines(string(out)) {
		field := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(field) != 3 {
			t.Fatalf("%q", line)
		}
		var pointer struct {
			V               int
			Task, Workspace string
		}
		if err := json.Unmarshal([]byte(field[1]), &pointer); err != nil || pointer.V != 1 || len(pointer.Task) != 36 {
			t.Fatalf("%q: %v", line, err)
		}
		if !strings.HasPrefix(field[0], pointer.Workspace+"/") || !strings.Contains(field[2], "fencepost-accepted-at=20") {
			t.Errorf("key and headers of %q", line)
		}
		read++
	}
	if read != n {
		t.Errorf("kcat reads %d records of %d", read, n)
	}
}
