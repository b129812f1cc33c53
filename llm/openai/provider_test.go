package openai_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/openai"
	"github.com/fencepost/fencepost/llm/sim"
)

// countingListener counts requests in what its connections receive, below the HTTP server.
type countingListener struct {
	net.Listener
	requests *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{TCPConn: conn.(*net.TCPConn), requests: l.requests}, nil
}

type countingConn struct {
	*net.TCPConn
	requests *atomic.Int64
	tail     []byte
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	start := []byte("POST /v1/")
	c.tail = append(c.tail, p[:n]...)
	c.requests.Add(int64(bytes.Count(c.tail, start)))
	c.tail = slices.Clone(c.tail[max(0, len(c.tail)-len(start)+1):])
	return n, err
}

type world struct {
	sim      *sim.Server
	http     *httptest.Server
	requests atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{sim: s}
	w.http = httptest.NewUnstartedServer(s)
	w.http.Listener = countingListener{w.http.Listener, &w.requests}
	w.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	w.http.Start()
	t.Cleanup(func() { s.Close(); w.http.Close() })
	return w
}

func (w *world) control(t *testing.T, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequest(method, w.http.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.http.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode > 299 {
		t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, out, err)
	}
	return out
}

func (w *world) listed(t *testing.T) int {
	t.Helper()
	var list []any
	if err := json.Unmarshal(w.control(t, "GET", "/sim/requests", ""), &list); err != nil {
		t.Fatal(err)
	}
	return len(list)
}

const key = "sk-very-secret-key-000"

func newProvider(t *testing.T, cfg openai.Config) *openai.Provider {
	t.Helper()
	cfg.APIKey = key
	p, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Every failure the simulator can show, of both APIs, streamed and not, over new and kept connections: the wire, the
// simulator's ledger and the report agree on one request.
func TestI5_ReportEqualsTheWire(t *testing.T) {
	for _, c := range []struct {
		rule  string
		class llm.Class
		says  string
	}{
		{`{}`, "", ""},
		{`{"latency":"5ms"}`, "", ""},
		{`{"text":"a\u0000b"}`, "", ""},
		{`{"do":"status"}`, llm.Ambiguous, "HTTP 500 server_error"},
		{`{"do":"status","status":429,"headers":{"Retry-After":"3"}}`, llm.RateLimited, "rate_limit_exceeded"},
		{`{"do":"status","status":429,"body":{"error":{"type":"insufficient_quota","message":"m"}}}`, llm.Quota, "insufficient_quota"},
		{`{"do":"status","status":503}`, llm.Overloaded, "HTTP 503"},
		{`{"do":"status","status":503,"body":"<html>"}`, llm.Ambiguous, "HTTP 503"},
		{`{"do":"status","status":400,"body":{"error":"model not found"}}`, llm.Permanent, "model not found"},
		{`{"do":"status","status":302,"headers":{"Location":"/v1/chat/completions"}}`, llm.Permanent, "redirect"},
		{`{"do":"status","status":307,"headers":{"Location":"/v1/chat/completions"}}`, llm.Permanent, "redirect"},
		{`{"do":"status","status":308,"headers":{"Location":"/v1/chat/completions"}}`, llm.Permanent, "redirect"},
		{`{"do":"status","status":408,"headers":{"Connection":"close"}}`, llm.Ambiguous, "HTTP 408"},
		{`{"do":"reset_before_headers"}`, llm.Ambiguous, "reset"},
		{`{"do":"reset_after_headers"}`, llm.Ambiguous, ""},
		{`{"do":"cut_stream"}`, llm.Ambiguous, "EOF"},
		{`{"do":"empty"}`, llm.RejectedOutput, "empty"},
		{`{"do":"garbage"}`, llm.Ambiguous, "the answer is not a"},
		{`{"do":"cut_event"}`, llm.Ambiguous, "EOF"},
		{`{"do":"end_early"}`, llm.Ambiguous, ""},
		{`{"do":"error_after_output"}`, llm.Ambiguous, "error"},
		{`{"do":"refuse"}`, llm.RejectedOutput, "refused"},
		{`{"do":"tool_call"}`, llm.RejectedOutput, "tool"},
		{`{"body":"null"}`, llm.Ambiguous, "null"},
		{`{"body":{"error":{"message":"upstream"}}}`, llm.Ambiguous, "upstream"},
		{`{"do":"hang"}`, llm.Ambiguous, "timeout passed"},
	} {
		for i := range 8 {
			keep, stream, responses := time.Minute*time.Duration(i%2), i/2%2 == 1, i/4 == 1
			t.Run(fmt.Sprintf("%s/keep %v/stream %v/responses %v", c.rule, keep, stream, responses), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				cfg := openai.Config{BaseURL: w.http.URL + "/v1/", Stream: stream, Timeout: time.Minute, HTTP: llm.TransportConfig{KeepAlive: keep}}
				if strings.Contains(c.rule, "hang") {
					cfg.Timeout = 300 * time.Millisecond
				}
				var p interface {
					llm.Provider
					Close()
				} = newProvider(t, cfg)
				if responses {
					var err error
					if p, err = openai.NewResponses(cfg); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(p.Close)
				}
				if keep > 0 {
					if _, err := p.Call(context.Background(), llm.Request{Model: "m", Content: "warm"}); err != nil {
						t.Fatal(err)
					}
					w.requests.Store(0)
				}
				w.control(t, "DELETE", "/sim/requests", "")
				w.control(t, "PUT", "/sim/rules", "["+c.rule+"]")
				trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
				a, err := p.Call(context.Background(), llm.Request{Model: "m", Content: "hello", TraceParent: trace})
				report := a.Report
				if c.class != "" {
					var f *llm.Failure
					if !errors.As(err, &f) || f.Class != c.class || !strings.Contains(f.Message, c.says) {
						t.Fatalf("%+v, %v; want %s %q", a, err, c.class, c.says)
					}
					report = f.Report
				} else if err != nil || a.Text == "" || a.Usage == nil || a.Model != "m" || !strings.HasPrefix(a.RequestID, "req_sim_") {
					t.Fatalf("%+v, %v", a, err)
				}
				p.Close()
				if wire, listed := w.requests.Load(), w.listed(t); wire != 1 || listed != 1 || report.WireRequests != 1 {
					t.Errorf("%d on the wire, %d in the simulator's ledger, %d reported", wire, listed, report.WireRequests)
				}
				if list := w.control(t, "GET", "/sim/requests", ""); !bytes.Contains(list, []byte(trace)) {
					t.Errorf("no traceparent in %s", list)
				}
			})
		}
	}
}

func TestI5_NotSent(t *testing.T) {
	w := newWorld(t)
	url := w.http.URL + "/v1"
	w.http.Close()
	_, err := newProvider(t, openai.Config{BaseURL: url, Name: "sim"}).Call(context.Background(), llm.Request{Model: "m", Content: "hello"})
	var f *llm.Failure
	if !errors.As(err, &f) || f.Class != llm.NotSent || f.WireRequests != 0 || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("%+v", err)
	}
}

func TestCauseOfACancelledCall(t *testing.T) {
	w := newWorld(t)
	w.control(t, "PUT", "/sim/rules", `[{"do":"hang"}]`)
	p := newProvider(t, openai.Config{BaseURL: w.http.URL + "/v1"})
	ctx, cancel := context.WithCancelCause(context.Background())
	lost := errors.New("the lease was lost")
	go func() {
		for w.requests.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel(lost)
	}()
	_, err := p.Call(ctx, llm.Request{Model: "m", Content: "hello"})
	var f *llm.Failure
	if !errors.As(err, &f) || f.Class != llm.Cancelled || f.WireRequests != 1 || !errors.Is(err, lost) {
		t.Fatalf("%+v", err)
	}
}

// No way of printing a provider or a failure shows the key or the prompt, also when the server repeats them.
func TestSecretsStayOut(t *testing.T) {
	const prompt = "Tell me, doctor, what the red spots on my left arm may be"
	w := newWorld(t)
	p := newProvider(t, openai.Config{BaseURL: w.http.URL + "/v1"})
	streaming := newProvider(t, openai.Config{BaseURL: w.http.URL + "/v1", Stream: true})
	dead := newProvider(t, openai.Config{BaseURL: "http://127.0.0.1:1/v1"})
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	jsonLogger := slog.New(slog.NewJSONHandler(&out, nil))
	for _, rule := range []string{
		`{"do":"status","status":401,"body":{"error":{"message":"Incorrect API key provided: ` + key + `"}}}`,
		`{"do":"status","status":400,"body":{"error":{"message":"cannot parse ` + prompt + `"}}}`,
		`{"do":"status","status":500,"body":"<html>` + prompt + key + `</html>"}`,
		`{"headers":{"Content-Type":"text/event-stream"},"body":"data: {\"error\":{\"message\":\"` + prompt + key + `\"}}\n\n"}`,
		`{"body":{"error":"` + prompt + `"}}`, `{"body":"` + prompt + `"}`, `{"do":"reset_before_headers"}`, `{"do":"cut_stream"}`,
	} {
		w.control(t, "PUT", "/sim/rules", "["+rule+"]")
		for _, provider := range []*openai.Provider{p, streaming, dead} {
			_, err := provider.Call(context.Background(), llm.Request{Model: "m", System: prompt, Content: prompt})
			if err == nil {
				t.Fatalf("%s: no failure", rule)
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				fmt.Fprintf(&out, "%v %+v %#v\n", e, e, e)
			}
			logger.Error("failed", "error", err, "provider", provider)
			jsonLogger.Error("failed", "error", err, "provider", provider)
			fmt.Fprintf(&out, "%v %+v %#v %s\n", provider, provider, provider, provider)
		}
	}
	for _, bad := range []string{"very-secret", "red spots", "doctor", "Bearer"} {
		if i := strings.Index(out.String(), bad); i >= 0 {
			t.Errorf("%q is in: %s", bad, out.String()[max(0, i-200):i+50])
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://api.openai.com/v1": true, "http://127.0.0.1:1/gateway/v1/": true,
		"": false, "api.openai.com/v1": false, "https://api.openai.com": false, "https:///v1": false, "ftp://x/v1": false,
		"https://user:hushhush@x/v1": false, "https://x/v1?key=hushhush": false, "http://hushhush\x7f@/v1": false,
	} {
		_, err := openai.New(openai.Config{BaseURL: url})
		if (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "hushhush") {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
	if _, err := openai.New(openai.Config{BaseURL: "https://x/v1", APIKey: "hushhush\n"}); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}

// A malformed traceparent is not passed on: it could carry another header.
func TestTraceParentIsChecked(t *testing.T) {
	got := make(chan *http.Request, 1)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			req, err := http.ReadRequest(bufio.NewReader(conn))
			if err == nil {
				got <- req
			}
			conn.Close()
		}
	}()
	p := newProvider(t, openai.Config{BaseURL: "http://" + ln.Addr().String() + "/v1"})
	for trace, want := range map[string]string{
		"": "", "x": "", "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0\n": "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":  "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	} {
		_, _ = p.Call(context.Background(), llm.Request{Model: "m", Content: "c", TraceParent: trace})
		req := <-got
		if req.Header.Get("Traceparent") != want || req.Header.Get("Authorization") != "Bearer "+key || !req.Close {
			t.Errorf("%q: sent %v", trace, req.Header)
		}
	}
}
