package llm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/anthropic"
	"github.com/fencepost/fencepost/llm/openai"
)

// peer is a server behind pipes, so that time is simulated: it counts every request on its own side, and says raw words.
type peer struct {
	// say answers the n-th request, counted from 1. keep: another may come over the same connection.
	say func(n int, req request, conn net.Conn) (keep bool)

	mu       sync.Mutex
	requests []request
	dials    int
	wg       sync.WaitGroup
}

type request struct {
	method, path string
	header       http.Header
	body         string
}

func (p *peer) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.wg.Go(func() { p.serve(theirs) })
	return ours, nil
}

func (p *peer) serve(conn net.Conn) {
	defer conn.Close()
	p.mu.Lock()
	p.dials++
	p.mu.Unlock()
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		got := request{req.Method, req.URL.RequestURI(), req.Header, string(body)}
		p.mu.Lock()
		p.requests = append(p.requests, got)
		n := len(p.requests)
		p.mu.Unlock()
		if !p.say(n, got, conn) {
			return
		}
	}
}

// listen puts the peer behind TCP, where connections can be kept, and returns how to reach it.
func (p *peer) listen(t *testing.T) func(context.Context, string, string) (net.Conn, error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close(); p.wg.Wait() })
	p.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(conn) })
		}
	})
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", ln.Addr().String())
	}
}

// generations counts the requests that a provider would make an answer for.
func (p *peer) generations() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		if r.method == http.MethodPost && !strings.HasSuffix(r.path, "/cancel") {
			n++
		}
	}
	return n
}

func (p *peer) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

func (p *peer) last() request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[len(p.requests)-1]
}

// always says the same to every request, and closes.
func always(text string) func(int, request, net.Conn) bool {
	return func(_ int, _ request, conn net.Conn) bool {
		_, _ = io.WriteString(conn, text)
		return false
	}
}

// hang says text and then nothing, until the client leaves.
func hang(text string) func(int, request, net.Conn) bool {
	return func(_ int, _ request, conn net.Conn) bool {
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, conn)
		return false
	}
}

// format is one of the three that providers speak: an answer of "Hello" to 60 tokens, 40 cached ones and 20 of output.
type format struct {
	name, provider, model string
	whole                 string
	events                []string // with their names and ends
	enough                int      // as many of them make a whole answer, when the stream then ends well
	make                  func(settings) (llm.Provider, error)
}

type settings struct {
	http     llm.TransportConfig
	stream   bool
	timeout  time.Duration
	recovery llm.RecoveryConfig
}

var formats = []format{
	{
		name: "chat", provider: "openai", model: "gpt-5-mini", enough: 4,
		whole: `{"id":"chatcmpl-1","model":"gpt-5-mini","choices":[{"index":0,"message":{"content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":40}}}`,
		events: data(
			`{"id":"chatcmpl-1","model":"gpt-5-mini","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":40}}}`,
			`[DONE]`),
		make: func(s settings) (llm.Provider, error) {
			return openai.New(openai.Config{BaseURL: "http://model.test/v1", HTTP: s.http, Stream: s.stream, Timeout: s.timeout, Recovery: s.recovery})
		},
	},
	{
		name: "responses", provider: "openai", model: "gpt-5-mini", enough: 4,
		whole: response("completed", "Hello"),
		events: data(
			`{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","model":"gpt-5-mini","status":"in_progress","output":[]}}`,
			`{"type":"response.output_text.delta","sequence_number":1,"delta":"Hel"}`,
			`{"type":"response.output_text.delta","sequence_number":2,"delta":"lo"}`,
			`{"type":"response.completed","sequence_number":3,"response":`+response("completed", "Hello")+`}`),
		make: func(s settings) (llm.Provider, error) {
			return openai.NewResponses(openai.Config{BaseURL: "http://model.test/v1", HTTP: s.http, Stream: s.stream, Timeout: s.timeout, Recovery: s.recovery})
		},
	},
	{
		name: "messages", provider: "anthropic", model: "claude-haiku-4-5", enough: 6,
		whole: `{"type":"message","id":"msg_1","model":"claude-haiku-4-5","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":60,"cache_read_input_tokens":40,"cache_creation_input_tokens":0,"output_tokens":20}}`,
		events: data(
			`{"type":"message_start","message":{"id":"msg_1","model":"claude-haiku-4-5","usage":{"input_tokens":60,"cache_read_input_tokens":40,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20}}`,
			`{"type":"message_stop"}`),
		make: func(s settings) (llm.Provider, error) {
			return anthropic.New(anthropic.Config{BaseURL: "http://model.test", HTTP: s.http, Stream: s.stream, Timeout: s.timeout, Recovery: s.recovery})
		},
	},
}

func response(status, text string) string {
	return `{"id":"resp_1","model":"gpt-5-mini","status":"` + status + `","output":[{"type":"message","content":[{"type":"output_text","text":"` + text + `"}]}],` +
		`"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":40},"output_tokens":20}}`
}

func data(objects ...string) []string {
	for i, o := range objects {
		objects[i] = "data: " + o + "\n\n"
	}
	return objects
}

// reply is a whole answer of a status; headers are lines.
func reply(status int, body string, headers ...string) string {
	head := fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", status, len(body))
	for _, h := range headers {
		head += h + "\r\n"
	}
	return head + "\r\n" + body
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

// The three ways in which a stream ends: said to be the end; not said, by a connection that needs no such word; cut.
const (
	endsWell = "well"
	closes   = "close"
	breaks   = "break"
)

func stream(end string, parts ...string) string {
	if end == closes {
		return streamHead + "Connection: close\r\n\r\n" + strings.Join(parts, "")
	}
	var b strings.Builder
	b.WriteString(streamHead + "Transfer-Encoding: chunked\r\n\r\n")
	for _, p := range parts {
		if p != "" {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
		}
	}
	if end == endsWell {
		b.WriteString("0\r\n\r\n")
	}
	return b.String()
}

// answer is the format's answer as it is asked for.
func (f format) answer(streamed bool) string {
	if streamed {
		return stream(endsWell, f.events...)
	}
	return reply(200, f.whole)
}

// refusal is an error in the format's words, as the body of a status, or of a 200.
func (f format) refusal(typ, code, message string) string {
	inner := map[string]any{"message": message, "type": typ}
	if code != "" {
		inner["code"] = code
	}
	body := map[string]any{"error": inner}
	if f.name == "messages" {
		body["type"] = "error"
	}
	b, _ := json.Marshal(body)
	return string(b)
}

// call is a provider at a peer.
type call struct {
	*testing.T
	format
	*peer
	streamed bool
	llm.Provider
}

// inAll runs do for each format, whole and streamed, in simulated time.
func inAll(t *testing.T, s settings, do func(c *call)) {
	t.Helper()
	for _, f := range formats {
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/streamed %v", f.name, streamed), func(t *testing.T) { in(t, f, streamed, s, do) })
		}
	}
}

func in(t *testing.T, f format, streamed bool, s settings, do func(c *call)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &peer{}
		s.stream = streamed
		if s.http.Dial == nil {
			s.http.Dial = p.dial
		}
		provider, err := f.make(s)
		if err != nil {
			t.Fatal(err)
		}
		do(&call{t, f, p, streamed, provider})
		provider.(interface{ Close() }).Close()
		p.wg.Wait()
	})
}

func (c *call) run(ctx context.Context) (llm.Answer, *llm.Failure) {
	c.Helper()
	return c.ask(ctx, llm.Request{Model: c.model, Content: "Say hello, please.", Op: "op-1"})
}

// ask makes a call and checks what holds of all: a failure is a *Failure, with nothing of an answer beside it.
func (c *call) ask(ctx context.Context, req llm.Request) (llm.Answer, *llm.Failure) {
	c.Helper()
	a, err := c.Call(ctx, req)
	if err == nil {
		return a, nil
	}
	var f *llm.Failure
	if !errors.As(err, &f) || a.Text != "" {
		c.Fatalf("%+v, %T %v", a, err, err)
	}
	return a, f
}

// fails makes a call that must fail as said, by one generation.
func (c *call) fails(class llm.Class, says string) *llm.Failure {
	c.Helper()
	before := c.generations()
	a, f := c.run(c.Context())
	if f == nil || f.Class != class || !strings.Contains(f.Message, says) {
		c.Fatalf("%+v, %+v; want %s, %q", a, f, class, says)
	}
	if n := c.generations() - before; n != f.WireRequests || n != 1 && class != llm.NotSent {
		c.Errorf("%d requests arrived, %d are reported", n, f.WireRequests)
	}
	return f
}
