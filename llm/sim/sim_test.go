package sim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencepost/fencepost/llm"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("FENCEPOST_TEST_SIM_LEDGER"); path != "" {
		serveUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}

func newServer(t testing.TB, cfg Config) (*Server, string) {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(func() { s.Close(); srv.Close(); http.DefaultClient.CloseIdleConnections() })
	return s, srv.URL
}

func request(t testing.TB, method, url, body string) (int, []byte, error) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "key-1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return resp.StatusCode, out, err
}

func rules(t testing.TB, url, list string) {
	t.Helper()
	if status, out, err := request(t, "PUT", url+"/sim/rules", list); err != nil || status != http.StatusNoContent {
		t.Fatalf("PUT rules: %d %s %v", status, out, err)
	}
}

func ask(content string) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":%q}]}`, content)
}

func chat(t testing.TB, url, body string) (int, string) {
	t.Helper()
	status, out, err := request(t, "POST", url+"/v1/chat/completions", body)
	if err != nil {
		return 0, err.Error()
	}
	var c completion
	if json.Unmarshal(out, &c) == nil && len(c.Choices) == 1 && c.Choices[0].Message.Content != nil {
		return status, *c.Choices[0].Message.Content
	}
	return status, string(out)
}

func listed(t testing.TB, url string) []entry {
	t.Helper()
	var out []entry
	_, body, err := request(t, "GET", url+"/sim/requests", "")
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return out
}

func total(t testing.TB, url string) (out totals) {
	t.Helper()
	_, body, err := request(t, "GET", url+"/sim/totals", "")
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return out
}

func TestAnswerIsDeterministicAndListed(t *testing.T) {
	_, url := newServer(t, Config{})
	for range 2 {
		if status, text := chat(t, url, ask("hello")); status != 200 || text != "echo: hello" {
			t.Fatalf("%d %q", status, text)
		}
	}
	long := strings.Repeat("ä", 1000)
	if _, text := chat(t, url, ask(long)); text != "echo: "+strings.Repeat("ä", echoBytes/2) {
		t.Errorf("%q", text)
	}
	if _, text := chat(t, url, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"max_tokens":1}`); text != "echo" {
		t.Errorf("%q", text)
	}
	list := listed(t, url)
	if len(list) != 4 || list[0].Content != "hello" || list[2].Content != long || list[3].Content != "ab" {
		t.Fatalf("%+v", list)
	}
	e := list[0]
	if e.N != 1 || e.Model != "m" || e.Done != "answer" || e.Status != 200 || e.ClientGone || e.Headers.IdempotencyKey != "key-1" ||
		e.InputTokens != tokens(6) || e.OutputTokens != tokens(11) || e.Time.IsZero() {
		t.Errorf("%+v", e)
	}
	if got := total(t, url); got.Requests != 4 || got.InFlight != 0 || got.Listed != 4 || got.OutputTokens < 3 {
		t.Errorf("%+v", got)
	}
	request(t, "DELETE", url+"/sim/requests", "")
	if got := total(t, url); got != (totals{}) {
		t.Errorf("%+v", got)
	}
	if _, body, _ := request(t, "GET", url+"/sim/requests", ""); string(body) != "[]\n" {
		t.Errorf("%q", body)
	}
	if status, body, _ := request(t, "GET", url+"/v1/models", ""); status != 200 || !bytes.Contains(body, []byte(`"object":"list"`)) {
		t.Errorf("%d %s", status, body)
	}
}

func TestRulesFirstMatchTimesAndNth(t *testing.T) {
	_, url := newServer(t, Config{})
	rules(t, url, `[
		{"match":{"contains":"thrice","nth":2},"text":"second"},
		{"match":{"contains":"thrice","nth":3},"text":"third"},
		{"match":{"contains":"twice"},"times":2,"do":"status","status":418,"body":"teapot"},
		{"match":{"contains":"never"},"times":0,"text":"x"},
		{"match":{"model":"other"},"text":"other model","input_tokens":100,"output_tokens":200},
		{"match":{"contains":"odd"},"do":"answer","status":201,"headers":{"X-Request-Id":"mine"},"body":{"a":1}}
	]`)
	for i, c := range []struct {
		body string
		want string
	}{
		{ask("thrice"), "200 echo: thrice"}, {ask("thrice"), "200 second"}, {ask("thrice"), "200 third"}, {ask("thrice"), "200 echo: thrice"},
		{ask("twice"), "418 teapot"}, {ask("once"), "200 echo: once"}, {ask("twice"), "418 teapot"}, {ask("twice"), "200 echo: twice"},
		{ask("never"), "200 echo: never"},
		{strings.Replace(ask("x"), `"m"`, `"other"`, 1), "200 other model"},
		{ask("odd"), `201 {"a":1}`},
	} {
		status, text := chat(t, url, c.body)
		if got := fmt.Sprint(status, " ", text); got != c.want {
			t.Errorf("call %d: %q, want %q", i, got, c.want)
		}
	}
	list := listed(t, url)
	if e := list[9]; e.InputTokens != 100 || e.OutputTokens != 200 {
		t.Errorf("%+v", e)
	}
	if e := list[4]; e.Done != "status" || e.Status != 418 || e.InputTokens != 0 || e.OutputTokens != 0 {
		t.Errorf("%+v", e)
	}
	rules(t, url, `[]`)
	if _, text := chat(t, url, ask("odd")); text != "echo: odd" {
		t.Errorf("%q", text)
	}
}

// A rule with times is taken that often and no more, also by calls at once.
func TestTimesIsExactUnderConcurrency(t *testing.T) {
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := parseRules([]byte(`[{"times":37,"do":"status","status":429}]`))
	if err != nil {
		t.Fatal(err)
	}
	s.script.set(list)
	var mu sync.Mutex
	refused := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				if _, err := s.Provider().Call(context.Background(), llm.Request{Model: "m", Content: "c"}); err != nil {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if got := s.ledger.total(); refused != 37 || got.Requests != 200 || got.InFlight != 0 {
		t.Errorf("%d refused, %+v", refused, got)
	}
}

func TestBadRulesAreRefusedAndChangeNothing(t *testing.T) {
	_, url := newServer(t, Config{})
	rules(t, url, `[{"text":"kept"}]`)
	for body, says := range map[string]string{
		``:                                "list",
		`null`:                            "list",
		`{}`:                              "list",
		`[] []`:                           "follows",
		`[null]`:                          "rule 0",
		`[{"doo":"answer"}]`:              `unknown field \"doo\"`,
		`[{"match":{"content":"x"}}]`:     `unknown field \"content\"`,
		`[{},{"do":"explode"}]`:           "rule 1",
		`[{"do":"status","status":99}]`:   "status 99",
		`[{"do":"hang","status":500}]`:    "does not go with",
		`[{"latency":"soon"}]`:            "soon",
		`[{"latency":5}]`:                 "1.5s",
		`[{"latency":"-1s"}]`:             "-1s",
		`[{"times":-1}]`:                  "times",
		`[{"match":{"nth":-1}}]`:          "nth",
		`[{"output_tokens":-1}]`:          "token",
		`[{"headers":{"a b":"c"}}]`:       "header",
		`[{"headers":{"a":"c\nSet: x"}}]`: "header",
		`[{"text":7}]`:                    "text",
		`[{"chunks":1}]`:                  "chunks",
		`[{"do":"stall","chunks":-1}]`:    "chunks",
		`[{"line_bytes":-1}]`:             "line_bytes",
		`[{"line_bytes":100000000}]`:      "line_bytes",
		`[{"cached_tokens":-1}]`:          "token",
		`[{"chunk_latency":"-1s"}]`:       "-1s",
		`[` + strings.Repeat(`{},`, 10_000) + `{}]`: "more than",
	} {
		status, out, err := request(t, "PUT", url+"/sim/rules", body)
		if err != nil || status != 400 || !strings.Contains(string(out), says) {
			t.Errorf("%.60q: %d %s %v; want %q", body, status, out, err, says)
		}
	}
	if _, text := chat(t, url, ask("x")); text != "kept" {
		t.Errorf("the rules in force changed: %q", text)
	}
	if _, out, _ := request(t, "GET", url+"/sim/rules", ""); !bytes.Contains(out, []byte("kept")) {
		t.Errorf("%s", out)
	}
}

func TestBadRequestsAreListed(t *testing.T) {
	_, url := newServer(t, Config{})
	for _, body := range []string{``, `x`, `{}`, `{"model":"m"}`, `{"model":"m","messages":[{"role":"user","content":7}]}`, `{"model":"m","messages":[{"content":"x"}],"max_tokens":0}`} {
		if status, out := chat(t, url, body); status != 400 || !strings.Contains(out, "invalid_request_error") {
			t.Errorf("%q: %d %s", body, status, out)
		}
	}
	if status, _ := chat(t, url, ask(strings.Repeat("x", maxRequestBody))); status != 413 {
		t.Errorf("status %d", status)
	}
	if list := listed(t, url); len(list) != 7 || list[0].Status != 400 || list[6].Status != 413 {
		t.Errorf("%+v", list)
	}
}

// The last user message is the content, whatever else was said; all of it is counted, in every protocol.
func TestConversations(t *testing.T) {
	_, url := newServer(t, Config{})
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"m","messages":[{"role":"developer","content":"12345678"},{"role":"user","content":"first"},{"role":"assistant","content":"abc"},{"role":"user","content":"last"}]}`,
		"/v1/messages":         `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"12345678"}],"messages":[{"role":"user","content":"first"},{"role":"assistant","content":"abc"},{"role":"user","content":[{"type":"text","text":"last"}]}]}`,
		"/v1/responses":        `{"model":"m","instructions":"1234","input":[{"role":"developer","content":"5678"},{"role":"user","content":"first"},{"type":"reasoning"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"abc"}]},{"role":"user","content":[{"type":"input_text","text":"last"}]}]}`,
	} {
		request(t, "DELETE", url+"/sim/requests", "")
		if status, out, err := request(t, "POST", url+path, body); err != nil || status != 200 || !bytes.Contains(out, []byte("echo: last")) {
			t.Errorf("%s: %d %s %v", path, status, out, err)
		}
		if e := listed(t, url)[0]; e.Content != "last" || e.Messages != 3 || e.SystemBytes != 8 || e.InputTokens != tokens(8+5+3+4) {
			t.Errorf("%s: %+v", path, e)
		}
	}
}

func TestStream(t *testing.T) {
	_, url := newServer(t, Config{})
	body := strings.Replace(ask("streaming, in several pieces"), `"messages"`, `"stream":true,"stream_options":{"include_usage":true},"messages"`, 1)
	_, out, err := request(t, "POST", url+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	var text, finish string
	var use *usage
	var last string
	sc := bufio.NewScanner(bytes.NewReader(out))
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		if last = data; data == "[DONE]" {
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil || c.Object != "chat.completion.chunk" {
			t.Fatalf("%v in %s", err, data)
		}
		if len(c.Choices) == 0 {
			use = c.Usage
			continue
		}
		if piece := c.Choices[0].Delta.Content; piece != nil {
			text += *piece
		}
		if c.Choices[0].FinishReason != nil {
			finish = *c.Choices[0].FinishReason
		}
	}
	if text != "echo: streaming, in several pieces" || finish != "stop" || last != "[DONE]" || use == nil || use.CompletionTokens != tokens(len(text)) {
		t.Errorf("%q %q %q %+v", text, finish, last, use)
	}
}

// A hanging call is listed while it hangs, ends when its client leaves, and Close lets go of the rest.
func TestHang(t *testing.T) {
	s, url := newServer(t, Config{})
	rules(t, url, `[{"do":"hang"}]`)
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 2)
	for _, ctx := range []context.Context{ctx, context.Background()} {
		go func() {
			req, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", strings.NewReader(ask("hanging")))
			if err == nil {
				_, err = http.DefaultClient.Do(req)
			}
			errs <- err
		}()
	}
	until(t, func() bool { return total(t, url).InFlight == 2 })
	if list := listed(t, url); len(list) != 2 || list[0].Content != "hanging" || list[0].Done != "" {
		t.Fatalf("%+v", list)
	}
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	until(t, func() bool { return total(t, url).InFlight == 1 })
	gone := 0
	for _, e := range listed(t, url) {
		if e.ClientGone && e.Done == doHang {
			gone++
		}
	}
	if gone != 1 {
		t.Errorf("%d clients gone", gone)
	}
	s.Close()
	if err := <-errs; err == nil {
		t.Error("the other call was answered")
	}
}

func until(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to pass")
		}
	}
}
