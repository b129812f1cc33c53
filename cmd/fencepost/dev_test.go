package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of these tests. They wait for events; a slow machine needs the time, a fast one does not.
const patience = 90 * time.Second

// devProcess is a `fencepost dev` of its own.
type devProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr *lockedBuffer
	rest   chan []byte // what came on stdout after the line
	ended  chan struct{}
	devReady
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// command makes the test binary be fencepost.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

func startDev(t *testing.T, args ...string) *devProcess {
	t.Helper()
	cmd := command(append([]string{"dev", "-o", "json", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
	p := &devProcess{t: t, cmd: cmd, stderr: &lockedBuffer{}, rest: make(chan []byte, 1), ended: make(chan struct{})}
	cmd.Stderr = p.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Killed, it would leave a temporary directory behind, or a Postgres that still writes into the test's own.
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(patience):
			p.kill()
		}
		if t.Failed() {
			t.Logf("stderr of dev:\n%s", p.stderr)
		}
	})
	line := make(chan []byte, 1)
	go func() {
		r := bufio.NewReader(out)
		text, _ := r.ReadBytes('\n')
		line <- text
		rest, _ := io.ReadAll(r)
		p.rest <- rest
		_ = cmd.Wait()
		close(p.ended)
	}()
	select {
	case text := <-line:
		if err := json.Unmarshal(text, &p.devReady); err != nil {
			t.Fatalf("the line on stdout is %q: %v\n%s", text, err, p.stderr)
		}
	case <-time.After(patience):
		t.Fatalf("not ready\n%s", p.stderr)
	}
	return p
}

func (p *devProcess) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// stop sends a signal and wants the exit code.
func (p *devProcess) stop(s os.Signal, want int) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("does not end after %v", s)
	}
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		p.t.Errorf("exit code %d after %v, want %d", got, s, want)
	}
}

type reply struct {
	status int
	header http.Header
	body   []byte
}

func (p *devProcess) call(method, url, key, body string) reply {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.APIKey)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: text}
}

func (p *devProcess) send(conversation, key, content string) reply {
	p.t.Helper()
	body, _ := json.Marshal(map[string]string{"content": content})
	return p.call("POST", p.API+"/v1/conversations/"+conversation+"/messages", key, string(body))
}

type taskJSON struct {
	ID       string
	Status   string
	Attempts int
	Reply    *struct{ Text string }
	Cost     struct {
		Amount       *string
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
	}
}

func decode[T any](t *testing.T, r reply) (v T) {
	t.Helper()
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return v
}

// finished waits for a task's end.
func (p *devProcess) finished(id string) taskJSON {
	p.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		task := decode[taskJSON](p.t, p.call("GET", p.API+"/v1/tasks/"+id+"?wait=10s", "", ""))
		switch task.Status {
		case "completed", "failed", "cancelled":
			return task
		}
	}
	p.t.Fatalf("task %s does not end", id)
	return taskJSON{}
}

type totalsJSON struct {
	Requests int
	InFlight int `json:"in_flight"`
}

func (p *devProcess) totals() totalsJSON {
	p.t.Helper()
	return decode[totalsJSON](p.t, p.call("GET", p.LLM+"/sim/totals", "", ""))
}

type conversationJSON struct {
	Messages []struct{ Replies []struct{ Text string } }
}

func TestI1_DevOneMessageOneReplyPaidForOnce(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	p := startDev(t)

	first := p.send("demo", "demo-1", "Hello!")
	if first.status != http.StatusAccepted {
		t.Fatalf("%d %s", first.status, first.body)
	}
	id := decode[taskJSON](t, first).ID
	again := p.send("demo", "demo-1", "Hello!")
	if again.status != http.StatusAccepted || decode[taskJSON](t, again).ID != id || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("repeat: %d %v %s", again.status, again.header, again.body)
	}
	if other := p.send("demo", "demo-1", "Something else"); other.status != http.StatusUnprocessableEntity {
		t.Errorf("same key, other inputs: %d %s", other.status, other.body)
	}
	task := p.finished(id)
	if task.Status != "completed" || task.Reply == nil || task.Reply.Text == "" {
		t.Errorf("task: %+v", task)
	}
	// The made-up price of sim-1: a dollar for a million tokens of input, two for as many of output.
	micros := task.Cost.InputTokens + 2*task.Cost.OutputTokens
	if want := strings.TrimRight(fmt.Sprintf("0.%06d", micros), "0"); micros == 0 || task.Cost.Amount == nil || *task.Cost.Amount != want {
		t.Errorf("cost %+v, want %s", task.Cost, want)
	}
	chat := decode[conversationJSON](t, p.call("GET", p.API+"/v1/conversations/demo/messages", "", ""))
	if len(chat.Messages) != 1 || len(chat.Messages[0].Replies) != 1 {
		t.Errorf("conversation: %+v", chat)
	}
	if n := p.totals().Requests; n != 1 {
		t.Errorf("the model was called %d times", n)
	}

	ready := p.call("GET", p.Admin+"/readyz", "", "")
	if ready.status != http.StatusOK {
		t.Errorf("/readyz: %d %s", ready.status, ready.body)
	}
	verbose := decode[map[string]any](t, p.call("GET", p.Admin+"/readyz?verbose", "", ""))
	if parts, _ := verbose["parts"].([]any); len(parts) != 3 || strings.Contains(string(ready.body), `"parts"`) {
		t.Errorf("/readyz?verbose: %v, beside %s", verbose, ready.body)
	}
	metrics := string(p.call("GET", p.Admin+"/metrics", "", "").body)
	for _, name := range []string{"fencepost_records_total", "fencepost_kafka_connects_total", "fencepost_build_info", "go_goroutines"} {
		if !strings.Contains(metrics, name) {
			t.Errorf("/metrics has no %s", name)
		}
	}
	if info := p.call("GET", p.Admin+"/", "", ""); !strings.Contains(string(info.body), "/readyz") {
		t.Errorf("/: %s", info.body)
	}

	p.stop(syscall.SIGTERM, 0)
	if rest := <-p.rest; len(rest) > 0 {
		t.Errorf("more than one line on stdout: %q", rest)
	}
	p.noneLeft()
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestI3_DevGoesOnAfterKill: what was answered 202 is answered, once each, after kill -9 in the middle of ten calls.
func TestI3_DevGoesOnAfterKill(t *testing.T) {
	const messages = 10
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"--data-dir", dir, "--lease", "2s"}
	p := startDev(t, args...)
	p.call("PUT", p.LLM+"/sim/rules", "", `[{"do":"hang"}]`)
	ids := make([]string, messages)
	for i := range ids {
		r := p.send(fmt.Sprintf("c%d", i), fmt.Sprintf("key-%d", i), fmt.Sprintf("message %d", i))
		if r.status != http.StatusAccepted {
			t.Fatalf("%d %s", r.status, r.body)
		}
		ids[i] = decode[taskJSON](t, r).ID
	}
	until(t, "ten calls in flight", func() bool { return p.totals().InFlight == messages })
	before := p.devReady
	p.kill()

	q := startDev(t, args...) // at once: it copes with a Postgres that is still there
	if q.APIKey != before.APIKey || q.Kafka != before.Kafka || q.LLM != before.LLM || q.Postgres != before.Postgres {
		t.Errorf("not where it was: %+v, before %+v", q.devReady, before)
	}
	for i, id := range ids {
		task := q.finished(id)
		if task.Status != "completed" || task.Reply == nil || task.Attempts != 2 {
			t.Errorf("task %d: %+v", i, task)
		}
		chat := decode[conversationJSON](t, q.call("GET", fmt.Sprintf("%s/v1/conversations/c%d/messages", q.API, i), "", ""))
		if len(chat.Messages) != 1 || len(chat.Messages[0].Replies) != 1 {
			t.Errorf("conversation %d: %+v", i, chat)
		}
	}
	if r := q.send("c0", "key-0", "message 0"); r.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the key is forgotten: %d %s", r.status, r.body)
	}
	// The ledger outlived the kill: ten calls then, ten after.
	if n := q.totals().Requests; n != 2*messages {
		t.Errorf("%d calls of the model, want %d", n, 2*messages)
	}
	q.kill()
	q.noneLeft()
}

func TestDevDirectoryIsUsedByOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := startDev(t, "--data-dir", dir)
	refused(t, "is used by process "+strconv.Itoa(p.cmd.Process.Pid), "dev", "--data-dir", dir)
	// A taken port is passed over.
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	q := startDev(t, "--listen", "127.0.0.1:"+port)
	if q.API == p.API {
		t.Error("two on one port")
	}
}

func TestDevRefusesADirectoryOfANewerVersion(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "format"), []byte("99\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, "Hint: choose another --data-dir", "dev", "--data-dir", dir)
	refused(t, "has format 99", "dev", "--data-dir", dir)
}

func TestDevRefusesADirectoryWithOtherThings(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, "is not empty", "dev", "--data-dir", dir)
}

func TestDevEndsWithItsPostgres(t *testing.T) {
	p := startDev(t)
	pid := p.postgresPID()
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("goes on without its Postgres")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(p.stderr.String(), "Error: postgres ended") {
		t.Errorf("stderr: %s", p.stderr)
	}
}

func TestDevSecondSignalStopsAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // an end at once leaves the temporary directory to the next start
	p := startDev(t)
	p.call("PUT", p.LLM+"/sim/rules", "", `[{"do":"hang"}]`)
	p.send("c", "k", "hold the drain up")
	until(t, "a call in flight", func() bool { return p.totals().InFlight == 1 })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// The drain has begun when the API takes nothing more.
	until(t, "the API to close", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.API, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	time.Sleep(oneSignal) // signals closer together than this count as one
	p.stop(syscall.SIGTERM, 1)
	p.noneLeft()
}

// refused runs a command that must end with exit code 3 and a word on stderr.
func refused(t *testing.T, want string, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("%v: %v\n%s", args, err, &stderr)
	}
	if stdout.Len() > 0 || !strings.Contains(stderr.String(), want) {
		t.Errorf("stdout %q, stderr %q, want %q", &stdout, &stderr, want)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// postgresPID is the server that is a child of the process.
func (p *devProcess) postgresPID() int {
	p.t.Helper()
	out, err := exec.Command("ps", "-eo", "pid=,ppid=,args=").Output()
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[1] == strconv.Itoa(p.cmd.Process.Pid) && strings.HasSuffix(fields[2], "/postgres") {
			pid, err := strconv.Atoi(fields[0])
			if err != nil {
				p.t.Fatal(err)
			}
			return pid
		}
	}
	p.t.Fatalf("no Postgres under %d:\n%s", p.cmd.Process.Pid, out)
	return 0
}

// noneLeft wants everything that listened to be gone; Postgres is told by the kernel and may take a moment.
func (p *devProcess) noneLeft() {
	p.t.Helper()
	db, err := url.Parse(p.Postgres)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, address := range []string{db.Host, p.Kafka, strings.TrimPrefix(p.LLM, "http://"), strings.TrimPrefix(p.API, "http://")} {
		until(p.t, address+" to be closed", func() bool {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
	}
}
