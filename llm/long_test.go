package llm_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/llm"
)

// A call of ten minutes is one, if nobody limits it; so is one whose connection is closed at its end without a word.
func TestACallOfTenMinutes(t *testing.T) {
	for _, f := range formats {
		for _, closing := range []bool{false, true} {
			in(t, f, false, settings{timeout: 11 * time.Minute}, func(c *call) {
				c.say = func(_ int, _ request, conn net.Conn) bool {
					time.Sleep(10 * time.Minute)
					text := reply(200, f.whole)
					if closing {
						text = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + f.whole
					}
					_, _ = io.WriteString(conn, text)
					return false
				}
				start := time.Now()
				if a, failure := c.run(c.Context()); failure != nil || a.Text != "Hello" || time.Since(start) != 10*time.Minute {
					t.Errorf("%s: %+v, %+v after %v", f.name, a, failure, time.Since(start))
				}
			})
		}
	}
}

// A whole answer whose connection is closed too early is none, wherever it is cut: also where the header does not say how
// long it is.
func TestHalfAWholeAnswerIsNone(t *testing.T) {
	for _, f := range formats {
		in(t, f, false, settings{}, func(c *call) {
			for n := range len(f.whole) {
				for _, head := range []string{"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(f.whole))} {
					c.say = always(head + f.whole[:n])
					c.fails(llm.Ambiguous, "")
				}
			}
		})
	}
}

// Lines of a megabyte are read, as many as an answer may hold.
func TestAStreamOfMegabyteLines(t *testing.T) {
	const size = 1_000_000
	for i, piece := range []string{
		`{"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}`, "",
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}`,
	} {
		if piece == "" {
			continue // the text of a response is in one event twice over
		}
		f := formats[i]
		line := data(fmt.Sprintf(piece, strings.Repeat("x", size)))[0]
		for n, want := range map[int]bool{8: true, 9: false} {
			in(t, f, true, settings{}, func(c *call) {
				events := append(append([]string{}, f.events[:2]...), strings.Repeat(line, n))
				c.say = always(stream(endsWell, append(events, f.events[2:]...)...))
				if !want {
					c.fails(llm.Ambiguous, "too large")
				} else if a, failure := c.run(c.Context()); failure != nil || len(a.Text) != n*size+len("Hello") {
					t.Errorf("%s: %d bytes, %+v", f.name, len(a.Text), failure)
				}
			})
		}
	}
}

// What has no end is cut: in the status line, a header, headers, informational answers, a body, a line, an event, comments.
func TestEndlessAnswersAreCut(t *testing.T) {
	const head, events = "HTTP/1.1 200 OK\r\n", streamHead + "Connection: close\r\n\r\n"
	for name, c := range map[string]struct {
		start, again string
		most         int
	}{
		"status line":   {"HTTP/1.1 200 ", "O", 64 << 10},
		"header":        {head + "X: ", "x", 64 << 10},
		"headers":       {head, "X: x\r\n", 64 << 10},
		"informational": {"", "HTTP/1.1 103 Early Hints\r\n\r\n", 64 << 10},
		"body":          {head + "Connection: close\r\n\r\n", "x", 8 << 20},
		"JSON":          {head + "Connection: close\r\n\r\n", "[", 8 << 20},
		"chunks":        {head + "Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", 64 << 20}, // 6 bytes of the wire for one
		"chunk header":  {head + "Transfer-Encoding: chunked\r\n\r\n", "0", 64 << 10},
		"line":          {events, "x", 1 << 20},
		"data":          {events, "data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", 3 << 20},
		"fields":        {events, "id: x\n", 8 << 20},
		"comments":      {events, ": x\n\n", 8 << 20},
		"refusal":       {"HTTP/1.1 500 X\r\nConnection: close\r\n\r\n", "x", 8 << 20},
	} {
		for _, streamed := range []bool{false, true} {
			in(t, formats[0], streamed, settings{}, func(got *call) {
				sent := 0
				got.say = func(_ int, _ request, conn net.Conn) bool {
					block := []byte(strings.Repeat(c.again, max(1, 4096/len(c.again))))
					for n, err := io.WriteString(conn, c.start); err == nil && sent < 100<<20; n, err = conn.Write(block) {
						sent += n
					}
					return false
				}
				a, f := got.run(got.Context())
				if f == nil || f.Class != llm.Ambiguous || len(f.Message) > 1000 {
					t.Errorf("%s: %.100q, %+v", name, a.Text, f)
				}
				got.wg.Wait()
				most := c.most
				if !streamed && c.start == events { // it is a body like any other
					most = 8 << 20
				}
				if sent > most+16<<10 {
					t.Errorf("%s, streamed %v: %d bytes were taken, want at most %d", name, streamed, sent, most)
				}
			})
		}
	}
}

// FuzzWire says any bytes at all instead of an answer: nothing panics, hangs or is reported wrongly, and an answer is one
// only when its end is there.
func FuzzWire(f *testing.F) {
	for i, format := range formats {
		f.Add(i, false, reply(200, format.whole))
		f.Add(i, true, stream(endsWell, format.events...))
		f.Add(i, true, stream(closes, format.events[:format.enough]...))
		f.Add(i, true, strings.Replace(stream(breaks, format.events...), "200", "429", 1))
		f.Add(i, false, reply(503, format.refusal("overloaded_error", "slow_down", "m"), "Retry-After: 1", "X-Request-Id: r"))
	}
	f.Add(0, true, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n")
	f.Add(1, false, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\nTransfer-Encoding: chunked, chunked\r\n\r\nffffffffffffffff\r\n")
	f.Add(2, false, "HTTP/2.0 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b")
	f.Fuzz(func(t *testing.T, which int, streamed bool, said string) {
		if which < 0 || which >= len(formats) {
			return
		}
		p := &peer{say: always(said)}
		provider, err := formats[which].make(settings{stream: streamed, http: llm.TransportConfig{Dial: p.dial}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.wg.Wait()
		c := &call{t, formats[which], p, streamed, provider}
		pieces := 0
		a, failure := c.ask(t.Context(), llm.Request{Model: "m", Content: "Say hello.", Text: func(s string) { pieces += len(s) }})
		report := a.Report
		if failure != nil {
			report = failure.Report
			if failure.Class == llm.NotSent || failure.Class == llm.Cancelled || failure.RetryAfter < 0 || failure.RetryAfter > llm.MaxRetryAfter || len(failure.Message) > 1000 {
				t.Errorf("%+v", failure)
			}
		} else if len(a.Text) == 0 || len(a.Text) > 3*len(said) || !endsWhole(which, said) {
			t.Errorf("accepted %+v", a)
		}
		if report.WireRequests != 1 || c.generations() != 1 || len(report.RequestID) > 200 || pieces > 3*len(said) {
			t.Errorf("%+v, %d requests, %d bytes of pieces", report, c.generations(), pieces)
		}
		if u := report.Usage; u != nil && (u.InputTokens < 0 || u.CachedInputTokens < 0 || u.CacheWriteTokens < 0 || u.OutputTokens < 0 || u.ReasoningTokens > u.OutputTokens) {
			t.Errorf("usage %+v", u)
		}
	})
}

// endsWhole: a finish reason is somewhere in it, as its format calls it.
func endsWhole(which int, said string) bool {
	words := [][]string{{"stop", "length", "end_turn", "max_tokens", "model_context_window_exceeded"}, {"completed", "incomplete"}, {"end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded", "stop", "length"}}[which]
	for _, w := range words {
		if strings.Contains(said, w) || strings.Contains(said, `\u`) {
			return true
		}
	}
	return false
}
