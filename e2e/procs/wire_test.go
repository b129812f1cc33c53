package procs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// wireCase is a way in which the model behaves. Each has its own rule, so that all happen in one run.
type wireCase struct {
	name, rule string
	attempts   int // the task's budget
}

// wireCases are all words of the simulated model, and the statuses that clients are known to act upon by themselves.
func wireCases(m *Model) []wireCase {
	var cases []wireCase
	for _, do := range m.words() {
		if do != "status" {
			cases = append(cases, wireCase{do, fmt.Sprintf(`"do": %q`, do), 2})
		}
	}
	for _, status := range []int{408, 409, 425, 500, 502, 503, 504, 529} {
		cases = append(cases, wireCase{fmt.Sprint("status ", status), fmt.Sprintf(`"do": "status", "status": %d, "headers": {"Retry-After": "0"}`, status), 2})
	}
	return append(cases,
		wireCase{"limit", `"do": "status", "status": 429, "headers": {"Retry-After-Ms": "10"}`, 2},
		wireCase{"told to repeat", `"do": "status", "status": 503, "headers": {"X-Should-Retry": "true", "Retry-After-Ms": "1"}`, 2},
		wireCase{"continue later", `"do": "answer", "latency": "300ms"`, 2},
		wireCase{"refused", `"do": "status", "status": 400`, 2},
	)
}

// wireRefusals open the breaker when there are some of them in a row, so that they are sent one after the other with
// answers between them.
func wireRefusals() []wireCase {
	var cases []wireCase
	for _, status := range []int{301, 302, 303, 307, 308, 403, 404, 405} {
		cases = append(cases,
			wireCase{fmt.Sprint("redirect ", status), fmt.Sprintf(`"do": "status", "status": %d, "headers": {"Location": "/v1/chat/completions"}`, status), 2},
			wireCase{fmt.Sprint("answered after ", status), `"do": "answer"`, 2})
	}
	return cases
}

// wireLast opens the breaker at once, so that it comes when nothing else waits.
var wireLast = wireCase{"unauthorized", `"do": "status", "status": 401`, 2}

// words are what a rule of the simulated model may do, in its own words.
func (m *Model) words() []string {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodPut, m.URL+"/sim/rules", strings.NewReader(`[{"do": "?"}]`))
	if err != nil {
		m.t.Fatal(err)
	}
	_, body, err := do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	var refusal struct {
		Error struct{ Message string }
	}
	if err := json.Unmarshal(body, &refusal); err != nil {
		m.t.Fatalf("%v: %s", err, body)
	}
	_, list, found := strings.Cut(refusal.Error.Message, `is none of `)
	words := strings.Split(list, ", ")
	if !found || len(words) < 8 || !slices.Contains(words, "cut_stream") {
		m.t.Fatalf("the model's words are not in %q", refusal.Error.Message)
	}
	return words
}

// wire is a way from a worker to the model.
type wire struct {
	name     string
	provider string
	flags    []string
	tls      bool // the server offers HTTP/2
	proxy    bool
	recovers bool // an attempt may find the answer of an earlier one, and then has no request of its own
}

const (
	whole = "--llm-stream=false"
	kept  = "--llm-keep-alive=20s"
)

var (
	responses = []string{"--llm-api", "responses"}
	byKey     = []string{"--llm-recovery", "idempotency-key", "--llm-recovery-retention", "1h", kept}
)

var wires = []wire{
	{name: "chat streamed", provider: "openai"},
	{name: "chat whole", provider: "openai", flags: []string{whole, kept}},
	{name: "chat with a key", provider: "openai", flags: byKey, recovers: true},
	{name: "chat stored", provider: "openai", flags: []string{"--llm-recovery", "stored-completions", "--llm-recovery-settle-delay", "300ms"}, recovers: true},
	{name: "chat over TLS", provider: "openai", tls: true, flags: []string{kept}},
	{name: "chat through a tunnel", provider: "openai", tls: true, proxy: true, flags: []string{whole}},
	{name: "responses streamed", provider: "openai", flags: append(responses, kept)},
	{name: "responses whole", provider: "openai", flags: append(responses, whole)},
	{name: "responses with a key", provider: "openai", flags: append(byKey, append(responses, whole)...), recovers: true},
	{name: "responses in the background", provider: "openai", flags: append(responses, "--llm-recovery", "background", "--llm-recovery-settle-delay", "300ms"), recovers: true},
	{name: "messages streamed", provider: "anthropic", flags: []string{kept}},
	{name: "messages whole", provider: "anthropic", flags: []string{whole}},
	{name: "messages with a key", provider: "anthropic", flags: append(byKey, whole), recovers: true},
	{name: "messages through a proxy", provider: "anthropic", proxy: true},
}

const wireHost = "model.test" // not a loopback address, which no proxy is asked for

var marked = regexp.MustCompile(`case [a-z0-9_ ]+; [0-9]+`)

// lastMarked finds which message a request is about: the last one in it, behind the conversation before it.
func lastMarked(request string) string {
	line, body, _ := strings.Cut(request, "\n")
	all := marked.FindAllString(body, -1)
	if len(all) == 0 || !strings.HasPrefix(line, "POST ") {
		return line
	}
	return all[len(all)-1]
}

// worker describes a worker that reaches the model this way, through a counter.
func (v wire) worker(t *testing.T, w *World, n int) (*Node, *Counter, *Front) {
	t.Helper()
	model := strings.TrimPrefix(w.Model.URL, "http://")
	counter := Count(t, model, lastMarked)
	origin, env := "http://"+counter.Addr(), []string{}
	var front *Front
	switch {
	case v.tls:
		front = Secure(t, counter.Addr(), map[bool]string{true: wireHost, false: "localhost"}[v.proxy])
		_, port, _ := strings.Cut(front.Addr, ":")
		origin = "https://localhost:" + port
		env = append(env, "SSL_CERT_FILE="+front.CAFile)
		if v.proxy {
			origin = "https://" + wireHost
			env = append(env, "HTTPS_PROXY=http://"+Forwarder(t, "", front.Addr), "NO_PROXY=")
		}
	case v.proxy:
		counter = Count(t, Forwarder(t, model, ""), lastMarked)
		origin = "http://" + wireHost
		env = append(env, "HTTP_PROXY=http://"+counter.Addr(), "NO_PROXY=")
	}
	if v.provider == "openai" {
		origin += "/v1"
	}
	flags := append([]string{"--llm-provider", v.provider, "--llm-base-url", origin, "--llm-model", "sim-1",
		"--call-timeout", "2s", "--llm-first-token-timeout", "1s", "--llm-idle-timeout", "1s"}, v.flags...)
	node := w.Node(fmt.Sprint("worker-", n), "worker", flags...)
	node.env = append(env, "FENCEPOST_LLM_API_KEY=sk-test")
	return node, counter, front
}

// TestI5_WireRequestsAreAttempts: over everything that the simulated model can do, in both languages, streamed and not,
// through TLS servers that would rather speak HTTP/2, redirects, proxies and tunnels, the requests that are counted between
// a worker and the model are those in the product's ledger, and those in the model's.
func TestI5_WireRequestsAreAttempts(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, len(wires), "--max-in-flight", "64")
	cases, refusals := wireCases(w.Model), wireRefusals()
	var rules []string
	for _, c := range slices.Concat(cases, refusals, []wireCase{wireLast}) {
		rules = append(rules, ruleFor("case "+c.name+";", c.rule))
	}
	w.Model.Rules("[" + strings.Join(rules, ",") + "]")
	front := w.Node("front", "api,dispatcher", "--llm-model", "sim-1")
	nodes, counters, fronts := []*Node{front}, make([]*Counter, len(wires)), make([]*Front, len(wires))
	for i, v := range wires {
		var node *Node
		node, counters[i], fronts[i] = v.worker(t, w, i)
		nodes = append(nodes, node)
	}
	run(t, nodes...)
	w.waitMembers(t, len(wires)) // each has a partition, and with it a message of each case
	client := &Client{Key: w.Key, Nodes: []*Node{front}}
	var sending errgroup.Group
	sending.SetLimit(16)
	for p := range wires {
		for _, c := range cases {
			sending.Go(func() error { return w.sendCase(t, client, c, p, c.name) })
		}
		sending.Go(func() error {
			for _, c := range refusals {
				if err := w.sendCase(t, client, c, p, "refusals"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := sending.Wait(); err != nil {
		t.Fatal(err)
	}
	w.waitFinished(t)
	for p := range wires {
		if err := w.sendCase(t, client, wireLast, p, wireLast.name); err != nil {
			t.Fatal(err)
		}
	}
	w.waitFinished(t)
	stop(t, nodes...)

	counted, messages := map[string]int{}, len(cases)+len(refusals)+1
	for i, v := range wires {
		ledger := w.wireRequests(t, nodes[1+i], v.recovers)
		if len(ledger) != messages {
			t.Errorf("%s: the worker has had %d messages, want %d", v.name, len(ledger), messages)
		}
		for content, n := range counters[i].Counts() {
			if lookup := strings.HasPrefix(content, "GET /v1/") || strings.Contains(content, "/cancel "); lookup && v.recovers {
				continue // generates nothing
			}
			if !strings.HasPrefix(content, "case ") {
				t.Errorf("%s: %d requests %q on the wire", v.name, n, content)
				continue
			}
			if ledger[content] != n {
				t.Errorf("%s: %s: %d requests on the wire, %d in the ledger", v.name, content, n, ledger[content])
			}
			delete(ledger, content)
			counted[content] += n
		}
		for content, n := range ledger {
			t.Errorf("%s: %s: nothing on the wire, %d in the ledger", v.name, content, n)
		}
		if f := fronts[i]; f != nil && (len(f.Agreed()) == 0 || slices.Contains(f.Agreed(), "h2")) {
			t.Errorf("%s: connections have agreed on %q", v.name, f.Agreed())
		}
	}
	requests := 0
	for content, n := range w.Model.arrived() {
		requests += n
		if counted[content] != n {
			t.Errorf("%s: %d requests on the wire, %d at the model", content, counted[content], n)
		}
	}
	t.Logf("%d requests of %d messages in %d ways", requests, len(counted), len(wires))
}

// sendCase submits a message in a conversation whose records go to a partition.
func (w *World) sendCase(t *testing.T, client *Client, c wireCase, partition int, conversation string) error {
	choose := kgo.StickyKeyPartitioner(nil).ForTopic(w.Topic)
	name := conversation
	for i := 0; choose.Partition(&kgo.Record{Key: []byte("test/" + name)}, len(wires)) != partition; i++ {
		name = fmt.Sprint(conversation, " ", i)
	}
	text := fmt.Sprintf("case %s; %d", c.name, partition)
	_, err := client.Send(t.Context(), name, text, map[string]any{"content": text, "max_attempts": c.attempts})
	return err
}

// wireRequests are a worker's in the ledger, by message. One that does not recover has had one in each attempt.
func (w *World) wireRequests(t *testing.T, worker *Node, recovers bool) map[string]int {
	t.Helper()
	rows, err := w.Pool.Query(t.Context(), `
		select m.content, sum(a.wire_requests)::int, count(*) filter (where a.wire_requests is distinct from 1)::int
		from attempts a join reply_tasks t on t.id = a.task_id join messages m on m.id = t.message_id
		where a.worker like $1 group by m.content`, fmt.Sprintf("%%-%d-%%", worker.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Content      string
		Wire, Others int
	}
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByPos[line])
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, l := range lines {
		out[l.Content] = l.Wire
		if l.Others != 0 && !recovers {
			t.Errorf("%s: %d attempts with other than one request", l.Content, l.Others)
		}
	}
	return out
}
