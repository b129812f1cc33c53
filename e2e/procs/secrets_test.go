package procs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// secrets are texts that must stay where they belong, by what they are.
type secrets map[string]string

// newSecrets draws a text of 48 letters for each, so that a piece of one is found, too.
func newSecrets(names ...string) secrets {
	s := secrets{}
	for _, name := range names {
		s[name] = strings.ReplaceAll(name, " ", "-") + "-" + strings.ToLower((rand.Text() + rand.Text())[:48])
	}
	return s
}

// sought looks for the secrets in a text, but not for those that may be there. It finds pieces of 20 bytes, and all of it
// in base64.
func (s secrets) sought(t *testing.T, where, text string, may ...string) {
	t.Helper()
	if text == "" {
		t.Errorf("%s is empty: nothing was looked at", where)
	}
	for name, secret := range s {
		if strings.Contains(strings.Join(may, ","), name) {
			continue
		}
		pieces := []string{base64.StdEncoding.EncodeToString([]byte(secret))}
		random := secret[strings.LastIndexByte(secret, '-')+1:] // what is before is also the word for it
		for i := 0; i+20 <= len(random); i += 7 {
			pieces = append(pieces, random[i:i+20])
		}
		for _, piece := range pieces {
			if i := strings.Index(text, piece); i >= 0 {
				t.Errorf("the %s is in %s: ...%s...", name, where, text[max(0, i-200):min(len(text), i+100)])
				break
			}
		}
	}
}

// leaks are failures of every class whose bodies say what they should not: %s is a JSON string.
var leaks = []wireCase{
	{"bad request", `"do": "status", "status": 400, "body": {"error": {"type": "invalid_request_error", "code": "bad", "message": %s}}`, 1},
	{"code", `"do": "status", "status": 400, "body": {"error": {"type": %[1]s, "code": %[1]s, "param": %[1]s, "message": ""}}`, 1},
	{"forbidden", `"do": "status", "status": 403, "body": {"error": {"message": %s}}`, 1},
	{"redirect", `"do": "status", "status": 307, "headers": {"Location": %s}, "body": %[1]s`, 1},
	{"timeout", `"do": "status", "status": 408, "body": {"error": %s}`, 1},
	{"limit", `"do": "status", "status": 429, "headers": {"Retry-After-Ms": "1"}, "body": {"error": {"message": %s}}`, 1},
	{"error", `"do": "status", "status": 500, "body": {"detail": %s}`, 1},
	{"page", `"do": "status", "status": 502, "headers": {"Content-Type": "text/html"}, "body": %s`, 1},
	{"overloaded", `"do": "status", "status": 529, "body": {"type": "error", "error": {"type": "overloaded_error", "message": %s}}`, 1},
	{"error under 200", `"do": "answer", "body": {"error": {"message": %s, "code": 500}}`, 1},
	{"no answer", `"do": "answer", "body": %s`, 1},
	{"early event", `"do": "error_before_output", "body": {"type": "error", "error": {"type": "server_error", "message": %s}}`, 1},
	{"late event", `"do": "error_after_output", "body": {"type": "error", "error": {"type": "server_error", "message": %s}}`, 1},
	{"reset", `"do": "reset_after_headers"`, 2},
	{"hang", `"do": "hang"`, 1},
	{"refusal", `"do": "refuse", "text": %s`, 1},
	{"finish", `"do": "answer", "finish_reason": %s`, 1},
	{"status line", `"do": "status", "status": 599, "headers": {"Www-Authenticate": %s}, "body": %[1]s`, 1},
}

// blocking is what ends a provider's run: the breaker opens, and says why.
var blocking = map[string]wireCase{
	"openai":    {"blocked", `"do": "status", "status": 401, "body": {"error": {"message": %s, "code": "invalid_api_key"}}`, 1},
	"anthropic": {"blocked", `"do": "status", "status": 402, "body": {"type": "error", "error": {"type": "billing_error", "message": %s}}`, 1},
}

// TestSecretsStayWhereTheyBelong: everything that the processes and verbs of an installation write at debug level, over
// failures of every class by a provider that repeats what it was sent, has neither a key nor what was asked and answered.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	sent := newSecrets("provider key", "prompt", "system text", "template", "earlier message", "reply")
	w := NewWorld(t, 4, "--log-level", "debug")
	s := newSecrets("database password")
	s["api key"] = strings.Replace(w.Key, "_", "-", 1)
	maps.Copy(s, sent)

	rules := []string{ruleFor("fine", fmt.Sprintf(`"text": %q`, s["reply"])), ruleFor("first", fmt.Sprintf(`"text": %q`, s["reply"]))}
	for name, secret := range sent {
		for _, c := range leaks {
			fields := c.rule
			if strings.Contains(fields, "%") {
				fields = fmt.Sprintf(fields, fmt.Sprintf("%q", "You sent "+secret+"!"))
			}
			rules = append(rules, ruleFor(c.name+" of "+name+";", fields))
		}
	}
	for provider, c := range blocking {
		rules = append(rules, ruleFor(c.name+" by "+provider+";", fmt.Sprintf(c.rule, fmt.Sprintf("%q", "Your key "+s["provider key"]+" asked "+s["prompt"]))))
	}
	w.Model.Rules("[" + strings.Join(rules, ",") + "]")

	templates := filepath.Join(t.TempDir(), "templates.yaml")
	if err := os.WriteFile(templates, fmt.Appendf(nil, "templates: {support: {version: '1', text: '%s'}}", s["template"]), 0o600); err != nil {
		t.Fatal(err)
	}
	database, err := url.Parse(w.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	if password, has := database.User.Password(); has {
		s["database password"] = password
	}
	database.User = url.UserPassword(database.User.Username(), s["database password"]) // one is not asked for it
	env := []string{"FENCEPOST_LLM_API_KEY=" + s["provider key"], "FENCEPOST_POSTGRES_URL=" + database.String()}
	front := w.Node("front", "api,dispatcher", "--postgres-url", database.String(), "--llm-model", "sim-1", "--prompt-templates", templates)
	front.env = env
	run(t, front)
	client := &Client{Key: w.Key, Nodes: []*Node{front}}
	nodes := []*Node{front}
	for provider, suffix := range map[string]string{"openai": "/v1", "anthropic": ""} {
		worker := w.Node("worker-"+provider, "worker", "--postgres-url", database.String(), "--llm-provider", provider, "--llm-base-url", w.Model.URL+suffix,
			"--call-timeout", "2s", "--llm-first-token-timeout", "1s", "--history-turns", "100", "--history-tokens", "100000")
		worker.env = env
		run(t, worker)
		nodes = append(nodes, worker)
		w.sendLeaks(t, client, sent, provider)
		w.waitFinished(t)
		for page, n := range map[string]*Node{"worker": worker, "front": front} {
			for _, path := range []string{"/metrics", "/readyz", "/healthz", "/debug/pprof/cmdline"} {
				if _, body, err := get(t.Context(), n.Admin+path); err != nil || path != "/debug/pprof/cmdline" {
					s.sought(t, page+path, string(body)+fmt.Sprint(err))
				}
			}
		}
		stop(t, worker)
	}
	w.seekAnswers(t, client, s)
	w.seekVerbs(t, s, env)
	w.seekStored(t, s)
	stop(t, front)
	for _, n := range append(nodes, w.Model.Node) {
		text, err := os.ReadFile(n.log)
		if err != nil {
			t.Fatal(err)
		}
		if n != w.Model.Node && !bytes.Contains(text, []byte("level=DEBUG")) {
			t.Errorf("%s has logged nothing at debug level", n.Name)
		}
		s.sought(t, "the log of "+n.Name, string(text))
	}
}

// sendLeaks has every failure repeat every secret, in a conversation for each secret. Between failures there are answers,
// so that the breaker stays closed; each conversation begins elsewhere, for the same reason.
func (w *World) sendLeaks(t *testing.T, client *Client, s secrets, provider string) {
	t.Helper()
	message := func(about string, attempts int) map[string]any {
		return map[string]any{"content": about + "; " + s["prompt"], "system": s["system text"], "prompt_template": "support", "max_attempts": attempts}
	}
	var sending errgroup.Group
	offset := 0
	for name := range s {
		offset += 3
		sending.Go(func() error {
			conversation := provider + " " + name
			first := map[string]any{"content": "first " + s["earlier message"]}
			if _, err := client.Send(t.Context(), conversation, conversation, first); err != nil {
				return err
			}
			for i := range leaks {
				c := leaks[(i+offset)%len(leaks)]
				for _, about := range []string{c.name + " of " + name, "fine after " + c.name} {
					if _, err := client.Send(t.Context(), conversation, conversation+about, message(about, c.attempts)); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	if err := sending.Wait(); err != nil {
		t.Fatal(err)
	}
	w.waitFinished(t)
	last := blocking[provider]
	if _, err := client.Send(t.Context(), provider, provider+last.name, message(last.name+" by "+provider, 1)); err != nil {
		t.Fatal(err)
	}
}

// seekAnswers looks at what the API says: problems, ledgers, tasks.
func (w *World) seekAnswers(t *testing.T, client *Client, s secrets) {
	t.Helper()
	ctx := t.Context()
	for _, c := range []struct {
		method, path, key string
		message           map[string]any
	}{
		{"POST", "/v1/conversations/c/messages", "k1", map[string]any{"content": s["prompt"], "prompt_template": "other"}},
		{"POST", "/v1/conversations/c/messages", "k1", map[string]any{"content": s["prompt"], "temperature": s["system text"]}},
		{"POST", "/v1/conversations/c/messages", "", map[string]any{"content": s["prompt"]}},
		{"POST", "/v1/conversations/c/messages", "openai prompt", map[string]any{"content": s["prompt"]}},
		{"POST", "/v1/tasks/" + s["prompt"] + "/cancel", "", nil},
		{"GET", "/v1/nothing", "", nil},
	} {
		status, body, err := client.Do(ctx, c.method, c.path, c.key, c.message)
		if err != nil || status < 400 {
			t.Errorf("%s %s: %d, %v", c.method, c.path, status, err)
		}
		s.sought(t, c.path, string(body))
	}
	wrong := &Client{Key: w.Key + "x", Nodes: client.Nodes}
	if status, body, err := wrong.Do(ctx, http.MethodGet, "/v1/tasks", "", nil); err != nil || status != http.StatusUnauthorized {
		t.Errorf("%d, %v", status, err)
	} else {
		s.sought(t, "401", string(body))
	}
	failed, after := 0, ""
	for {
		_, body, err := client.Do(ctx, http.MethodGet, "/v1/tasks?limit=200"+after, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		s.sought(t, "the list of tasks", string(body), "reply")
		var page struct {
			Tasks []Task
			Next  string
		}
		if err := json.Unmarshal(body, &page); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		for _, task := range page.Tasks {
			if task.Status != "failed" {
				continue
			}
			failed++
			_, body, err := client.Do(ctx, http.MethodGet, "/v1/tasks/"+task.ID+"/attempts", "", nil)
			if err != nil {
				t.Fatal(err)
			}
			s.sought(t, "attempts", string(body))
		}
		if page.Next == "" {
			break
		}
		after = "&after=" + page.Next
	}
	if least := 2 * (len(leaks) - 1) * 6; failed < least {
		t.Errorf("%d tasks have failed, want at least %d", failed, least)
	}
}

// seekVerbs looks at what verbs print, also where they fail.
func (w *World) seekVerbs(t *testing.T, s secrets, env []string) {
	t.Helper()
	verb := func(args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, Binary(t), append(args, "--log-level", "debug")...)
		cmd.Env = append(environment(), env...)
		out, _ := cmd.CombinedOutput() // some are to fail
		return string(out)
	}
	var id string
	if err := w.Pool.QueryRow(t.Context(), "select id::text from reply_tasks where status = 'failed' limit 1").Scan(&id); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"config", "show"}, {"config", "show", "-o", "json"}, {"keys", "list"}, {"migrate", "status"}, {"tasks", "list", "--status", "failed"},
		{"tasks", "show", id}, {"tasks", "show", id, "-o", "json"}, {"tasks", "cancel", id}, {"tasks", "list", "--limit", "x"},
		{"run", "--roles", "worker"}, {"run", "--roles", "worker", "--kafka-brokers", "x", "--llm-base-url", "://", "--llm-provider", "openai"},
		{"run", "--roles", "worker", "--kafka-brokers", "127.0.0.1:1", "--llm-base-url", "http://127.0.0.1:1", "--start-timeout", "1s"},
	} {
		s.sought(t, "fencepost "+strings.Join(args, " "), verb(args...), map[bool]string{true: "reply"}[args[0] == "tasks"])
	}
	broken := strings.Replace(env[1], "@", "@127.0.0.1:1,", 1)
	env = append(env, strings.Replace(broken, "sslmode=disable", "sslmode=nonsense", 1))
	s.sought(t, "a database that cannot be reached", verb("tasks", "list"))
}

// seekStored looks at the records, and at the rows that are not for what was asked and answered.
func (w *World) seekStored(t *testing.T, s secrets) {
	t.Helper()
	var rows string
	for _, table := range []string{"attempts", "reply_tasks", "submissions", "handoffs", "api_keys", "partition_positions"} {
		var text string
		if err := w.Pool.QueryRow(t.Context(), "select coalesce(string_agg(row_to_json(x)::text, ' '), '') from "+table+" x").Scan(&text); err != nil {
			t.Fatal(err)
		}
		rows += text
	}
	s.sought(t, "the tables", rows)
	var count int
	if err := w.Pool.QueryRow(t.Context(), "select count(*) from reply_tasks").Scan(&count); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.read(t, w.Topic, count) {
		s.sought(t, "a record", fmt.Sprintf("%s %s %s", r.Key, r.Value, r.Headers))
	}
}
