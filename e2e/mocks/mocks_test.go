package mocks

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/e2e/internal/child"
	"github.com/fencepost/fencepost/e2e/procs"
)

func TestMain(m *testing.M) { os.Exit(procs.Main(m).Run()) }

// patience is for the mocks' packages, too, which may have to be fetched.
const patience = 2 * time.Minute

// way is how a worker calls a mock.
type way struct {
	name, mock, provider string
	flags                []string
}

var ways = []way{
	{"chat streamed", "aimock", "openai", nil},
	{"chat whole", "aimock", "openai", []string{"--llm-stream=false", "--llm-keep-alive=20s"}},
	{"responses streamed", "aimock", "openai", []string{"--llm-api", "responses"}},
	{"responses whole", "aimock", "openai", []string{"--llm-api", "responses", "--llm-stream=false"}},
	{"messages streamed", "aimock", "anthropic", []string{"--llm-keep-alive=20s"}},
	{"messages whole", "aimock", "anthropic", []string{"--llm-stream=false"}},
	{"chat streamed", "mock-llm", "openai", nil},
	{"chat whole", "mock-llm", "openai", []string{"--llm-stream=false"}},
}

// expected is what becomes of each message; empty: that is the mock's to say.
var expected = map[string]struct {
	status   string
	attempts int
}{
	"answer": {"completed", 1}, "refused": {"failed", 1}, "broken": {"failed", 2}, "limited": {"failed", 2}, "cut": {},
}

// TestMocks: against servers that others wrote, an answer is saved, a failure is what it says, and the requests on the wire
// are those in the ledger and those that the mock itself has counted.
func TestMocks(t *testing.T) {
	urls := start(t)
	w := procs.NewWorld(t, 1)
	front := w.Node("front", "api,dispatcher", "--llm-model", "mock-1")
	begin(t, front)
	client := &procs.Client{Key: w.Key, Nodes: []*procs.Node{front}}
	counted := map[string]int{}
	for n, v := range ways {
		counter := procs.Count(t, strings.TrimPrefix(urls[v.mock], "http://"), marked)
		base := "http://" + counter.Addr()
		if v.provider == "openai" {
			base += "/v1"
		}
		worker := w.Node(fmt.Sprint("worker-", n), "worker", append([]string{"--llm-provider", v.provider, "--llm-base-url", base,
			"--history-turns", "0", "--call-timeout", "10s"}, v.flags...)...)
		begin(t, worker)
		for what := range expected {
			if v.mock == "mock-llm" && (what == "limited" || what == "cut") {
				continue // it knows neither
			}
			text := fmt.Sprintf("%s of %s by %s;", what, v.mock, v.name)
			if _, err := client.Send(t.Context(), text, text, map[string]any{"content": text, "max_attempts": 2}); err != nil {
				t.Fatal(err)
			}
		}
		finish(t, w)
		end(t, worker)
		for text, n := range counter.Counts() {
			counted[text] += n
		}
	}
	end(t, front)
	check(t, w, counted)
	for text, n := range journal(t, urls["aimock"]) {
		if counted[text] != n {
			t.Errorf("%s: aimock has counted %d requests, the wire %d", text, n, counted[text])
		}
		delete(counted, text)
	}
	for text, n := range counted {
		if !strings.Contains(text, "mock-llm") { // it does not count
			t.Errorf("%s: aimock has counted no request, the wire %d", text, n)
		}
	}
}

// check compares the ledger with the wire, and each task with what is expected of it.
func check(t *testing.T, w *procs.World, counted map[string]int) {
	t.Helper()
	rows, err := w.Pool.Query(t.Context(), `
		select m.content, t.status, t.attempts, coalesce(sum(a.wire_requests), 0)::int, coalesce(max(r.text), ''), coalesce(max(a.input_tokens), 0)::int
		from reply_tasks t join messages m on m.id = t.message_id left join attempts a on a.task_id = t.id left join replies r on r.task_id = t.id
		group by t.id, m.content`)
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Content, Status string
		Attempts, Wire  int
		Text            string
		InputTokens     int
	}
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByPos[line])
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		what, rest, _ := strings.Cut(l.Content, " ")
		if l.Wire != counted[l.Content] || l.Wire != l.Attempts {
			t.Errorf("%s: %d attempts, %d requests in the ledger, %d on the wire", l.Content, l.Attempts, l.Wire, counted[l.Content])
		}
		want := expected[what]
		if what != "answer" && strings.HasSuffix(rest, "mock-llm by chat streamed;") {
			want.status = "" // it says a failure in a stream, under status 200
		}
		if want.status != "" && (l.Status != want.status || l.Attempts != want.attempts) {
			t.Errorf("%s: %s after %d attempts, want %s after %d", l.Content, l.Status, l.Attempts, want.status, want.attempts)
		}
		mock := strings.Fields(rest)[1]
		if what == "answer" && l.Text != "an answer of "+mock {
			t.Errorf("%s: the reply is %q", l.Content, l.Text)
		}
		if what == "answer" && mock == "aimock" && l.InputTokens != 11 {
			t.Errorf("%s: %d input tokens, want 11", l.Content, l.InputTokens)
		}
	}
	t.Logf("%d messages in %d ways", len(lines), len(ways))
}

var mark = regexp.MustCompile(`[a-z]+ of [a-z-]+ by [a-z ]+;`)

// marked finds which message a request is about.
func marked(request string) string {
	if text := mark.FindString(request); text != "" {
		return text
	}
	line, _, _ := strings.Cut(request, "\n")
	return line
}

// journal is what aimock has counted, by message.
func journal(t *testing.T, url string) map[string]int {
	t.Helper()
	body, err := fetch(t.Context(), url+"/__aimock/journal")
	if err != nil {
		t.Fatal(err)
	}
	var entries []struct {
		Path string          `json:"path"`
		Body json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(body, &entries); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, e := range entries {
		if strings.HasPrefix(e.Path, "/v1/") {
			counts[marked(string(e.Body))]++
		}
	}
	return counts
}

// start starts the mocks and returns their addresses by name.
func start(t *testing.T) map[string]string {
	t.Helper()
	if _, err := exec.LookPath("npx"); err != nil {
		t.Skip("npx is not on the PATH: there are no mocks to run against")
	}
	log := filepath.Join(t.TempDir(), "mocks.log")
	ports := map[string]string{"aimock": port(t), "mock-llm": port(t)}
	mocks, err := child.Start(log, os.Environ(), "sh", "run.sh", "serve", ports["aimock"], ports["mock-llm"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = mocks.Signal(syscall.SIGKILL) // the script and all that it has started
		<-mocks.Done()
	})
	urls := map[string]string{}
	for name, port := range ports {
		urls[name] = "http://127.0.0.1:" + port
		for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
			if _, err = fetch(t.Context(), urls[name]+"/health"); err == nil {
				break
			}
			if !mocks.Alive() && mocks.ExitCode() == 3 {
				t.Skipf("the mocks cannot be had:\n%s", child.Tail(log, 2<<10))
			}
			if !mocks.Alive() || time.Now().After(deadline) {
				t.Fatalf("%s does not start: %v\n%s", name, err, child.Tail(log, 4<<10))
			}
		}
	}
	return urls
}

// port finds one that nobody listens on now.
func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d", url, resp.StatusCode)
	}
	return body, err
}

func begin(t *testing.T, n *procs.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

func end(t *testing.T, n *procs.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if code, err := n.Stop(ctx); err != nil || code != 0 {
		t.Errorf("%s ends with code %d, %v", n.Name, code, err)
	}
}

// finish waits until no task is unfinished.
func finish(t *testing.T, w *procs.World) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		var left int
		if err := w.Pool.QueryRow(t.Context(), "select count(*) from reply_tasks where finished_at is null").Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d tasks are unfinished", left)
		}
	}
}
