package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

// readAll returns a stream's events as "type|data", and how it ended.
func readAll(r io.Reader) ([]string, error) {
	var out []string
	events := newEventReader(r)
	for {
		e, err := events.next()
		if err != nil {
			return out, err
		}
		out = append(out, e.Type+"|"+string(e.Data))
	}
}

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", maxLineBytes-len("data:"))
	for _, c := range []struct {
		in   string
		want []string
		err  error
	}{
		{"", nil, io.EOF},
		{"\n\n\n", nil, io.EOF},
		{"data: a\n\n", []string{"|a"}, io.EOF},
		{"data:a\n\ndata:  b\n\ndata\n\n", []string{"|a", "| b", "|"}, io.EOF},
		{"\xEF\xBB\xBFdata: a\n\n", []string{"|a"}, io.EOF},
		{"event: e\ndata: a\ndata: b\n\ndata: c\n\n", []string{"e|a\nb", "|c"}, io.EOF},
		{"data: a\r\n\r\ndata: b\r\rdata: c\r\n\n", []string{"|a", "|b", "|c"}, io.EOF},
		{": c\n\n:\ndata: a\n: c\nid: 3\nretry: 5\nother\n\n: c", []string{"|a"}, io.EOF},
		{"event: e\r\ndata: a\r\ndata: b\r\n\r\n", []string{"e|a\nb"}, io.EOF}, // CRLF is one end
		{"data: a\r\n", nil, io.ErrUnexpectedEOF},
		{"event: e\n\ndata: a\n\n", []string{"|a"}, io.EOF}, // an event without data is none
		{"data: a\n\ndata: b\n", []string{"|a"}, io.ErrUnexpectedEOF},
		{"data: a\n\ndata: b", []string{"|a"}, io.ErrUnexpectedEOF},
		{"data: a\n\nda", []string{"|a"}, io.ErrUnexpectedEOF},
		{"data: a\n\nevent: e\n", []string{"|a"}, io.ErrUnexpectedEOF},
		{"data: a\n: c", nil, io.ErrUnexpectedEOF},
		{"data:" + long + "\n\n", []string{"|" + long}, io.EOF},
		{"data:" + long + "x\n\n", nil, errLineTooLong},
		{":" + long + "xxxxxxx", nil, errLineTooLong},
		{"data:" + long + "\ndata:" + long + "\ndata: " + strings.Repeat("x", 50) + "\n\n", nil, errEventTooLarge},
	} {
		for name, r := range map[string]io.Reader{"": strings.NewReader(c.in), " bytewise": iotest.OneByteReader(strings.NewReader(c.in))} {
			got, err := readAll(r)
			if !reflect.DeepEqual(got, c.want) || err != c.err {
				t.Errorf("%.60q%s: %.200q, %v; want %.200q, %v", c.in, name, got, err, c.want, c.err)
			}
		}
	}
}

// An event is given out at its empty line's CR, not when the next byte comes.
func TestEventIsNotHeldBack(t *testing.T) {
	in, out := net.Pipe()
	defer in.Close()
	go func() { defer out.Close(); io.WriteString(out, "data: a\r\r") }()
	in.SetReadDeadline(time.Now().Add(10 * time.Second))
	if e, err := newEventReader(in).next(); err != nil || string(e.Data) != "a" {
		t.Errorf("%q, %v", e.Data, err)
	}
}

func FuzzSSE(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "event: e\r\ndata: a\r\ndata:\r\n\r\n", ":c\r\rdata:a\r\r", "\xEF\xBB\xBFdata: [DONE]\n\n", "data", "data: a\n", "id: 1\n\n\n", "\x00\xff\n:\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := readAll(strings.NewReader(s))
		if slow, slowErr := readAll(iotest.OneByteReader(strings.NewReader(s))); !reflect.DeepEqual(got, slow) || err != slowErr {
			t.Errorf("in pieces: %q %v, else %q %v", slow, slowErr, got, err)
		}
		size := 0
		for _, e := range got {
			size += len(e)
		}
		if size > len(s) || err == nil {
			t.Errorf("%d bytes of events out of %d, %v", size, len(s), err)
		}
		// However the stream is cut, what is given out is a beginning of what the whole gives.
		cut, _ := readAll(strings.NewReader(s[:len(s)/2]))
		if len(cut) > len(got) || len(cut) > 0 && !reflect.DeepEqual(cut, got[:len(cut)]) {
			t.Errorf("cut: %q, whole %q", cut, got)
		}
	})
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

func chunked(parts ...string) string {
	var b strings.Builder
	b.WriteString(streamHead + "Transfer-Encoding: chunked\r\n\r\n")
	for _, p := range parts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	return b.String()
}

// Every end a stream can come to, on a new and on a kept connection: the server sees one request, and who gave up on
// silence is named.
func TestI5_Stream(t *testing.T) {
	left := errors.New("the user left")
	const a, done = "data: a\n\n", "data: done\n\n"
	for _, c := range []struct {
		name   string
		script string // what the server says; then it waits, closes or resets
		then   string
		events string
		body   string
		class  Class
		err    error
		reused bool
	}{
		{name: "whole", script: chunked(a, a, done) + "0\r\n\r\n", then: "wait", events: "a a done", reused: true},
		{name: "clean end", script: chunked(a) + "0\r\n\r\n", then: "wait", events: "a", reused: true},
		{name: "clean end by the connection", script: streamHead + "\r\n" + a, then: "close", events: "a"},
		{name: "left open after the last event", script: chunked(a, done), then: "wait", events: "a done"},
		{name: "more after the last event", script: chunked(a, done, a, a) + "0\r\n\r\n", then: "wait", events: "a done", reused: true},
		{name: "no stream", script: okAnswer, then: "wait", body: "{}", reused: true},
		{name: "refused", script: "HTTP/1.1 429 No\r\nContent-Type: text/event-stream\r\nContent-Length: 2\r\n\r\nno", then: "wait", body: "no", reused: true},
		{name: "cut between events", script: chunked(a), then: "close", events: "a", class: Ambiguous, err: io.ErrUnexpectedEOF},
		{name: "cut in an event", script: chunked(a, "data: b\n"), then: "close", events: "a", class: Ambiguous, err: io.ErrUnexpectedEOF},
		{name: "half an event, clean end", script: chunked(a, "data: b\n") + "0\r\n\r\n", then: "wait", events: "a", class: Ambiguous, err: io.ErrUnexpectedEOF},
		{name: "half an event, end by the connection", script: streamHead + "\r\n" + a + "data: b\n", then: "close", events: "a", class: Ambiguous, err: io.ErrUnexpectedEOF},
		{name: "reset", script: "", then: "reset", class: Ambiguous, err: syscall.ECONNRESET},
		{name: "no header", script: "", then: "wait", class: Ambiguous, err: ErrFirstToken},
		{name: "no event", script: chunked(": ping\n\n"), then: "wait", class: Ambiguous, err: ErrFirstToken},
		{name: "stands still", script: chunked(a), then: "wait", events: "a", class: Ambiguous, err: ErrIdle},
		{name: "stands still in an event", script: chunked(a, "data: b\n"), then: "wait", events: "a", class: Ambiguous, err: ErrIdle},
		{name: "too much", script: chunked(a, strings.Repeat(": c\n", 1000)), then: "wait", events: "a", class: Ambiguous, err: errBodyTooLarge},
		{name: "cancelled", script: chunked(a, "data: cancel\n\n"), then: "wait", events: "a cancel", class: Cancelled, err: left},
	} {
		for _, keep := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprintf("%s/keep %v", c.name, keep), func(t *testing.T) {
				t.Parallel()
				release := make(chan struct{})
				srv := newWireServer(t, func(conn net.Conn, n int64) bool {
					if n > 1 {
						return say(conn, okAnswer)
					}
					say(conn, c.script)
					switch c.then {
					case "reset":
						return rst(conn)
					case "wait":
						if c.reused {
							return true
						}
						<-release
					}
					return false
				})
				cfg := TransportConfig{KeepAlive: keep, MaxBodyBytes: 2000, FirstToken: time.Minute, Idle: time.Minute}
				if c.err == ErrFirstToken {
					cfg.FirstToken = 50 * time.Millisecond
				}
				if c.err == ErrIdle {
					cfg.Idle = 50 * time.Millisecond
				}
				client := NewClient(cfg)
				defer client.Close()
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				var got []string
				resp, wire, err := client.Stream(ctx, post(t, srv.url(), true), func(e Event) bool {
					got = append(got, string(e.Data))
					if string(e.Data) == "cancel" {
						cancel(left)
					}
					return string(e.Data) != "done"
				})
				close(release)
				f := failureOf(t, err, wire)
				if strings.Join(got, " ") != c.events || string(resp.Body) != c.body || resp.Streamed == (c.body != "") && resp.Status == 200 {
					t.Errorf("events %q, body %q, streamed %v", got, resp.Body, resp.Streamed)
				}
				if c.class == "" && f != nil || c.class != "" && (f == nil || f.Class != c.class || !errors.Is(f, c.err)) {
					t.Errorf("failed with %+v, want %s %v", f, c.class, c.err)
				}
				if n := srv.requests.Load(); n != 1 || wire.Requests != 1 {
					t.Errorf("the server saw %d requests, the wire counted %d", n, wire.Requests)
				}
				if f == nil {
					if _, wire, f := do(t, client, srv.url(), false); f != nil || wire.Reused != (c.reused && keep > 0) {
						t.Errorf("next call: %v, reused %v", f, wire.Reused)
					}
				}
			})
		}
	}
}

// A stream may last longer than its limits on silence, and comments keep it alive.
func TestStreamThatIsSlowButAlive(t *testing.T) {
	t.Parallel()
	srv := newWireServer(t, func(conn net.Conn, _ int64) bool {
		say(conn, streamHead+"\r\n")
		for range 25 {
			time.Sleep(50 * time.Millisecond)
			say(conn, ": ping\n\n")
		}
		say(conn, "data: a\n\n")
		for range 25 {
			time.Sleep(50 * time.Millisecond)
			say(conn, ": ping\n\n")
		}
		return say(conn, "data: done\n\n") && false
	})
	c := NewClient(TransportConfig{FirstToken: time.Second, Idle: time.Second})
	n := 0
	_, wire, err := c.Stream(context.Background(), post(t, srv.url(), false), func(Event) bool { n++; return true })
	if f := failureOf(t, err, wire); f != nil || n != 2 {
		t.Errorf("%v after %d events", f, n)
	}
}

func TestI5_StreamThatIsNotSent(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	left := errors.New("the user left")
	cancel(left)
	_, wire, err := NewClient(TransportConfig{}).Stream(ctx, post(t, "http://127.0.0.1:1", false), func(Event) bool { return true })
	if f := failureOf(t, err, wire); f == nil || f.Class != NotSent || !errors.Is(f, left) {
		t.Errorf("%+v", f)
	}
}

func TestRefusedInStream(t *testing.T) {
	const prompt = "a prompt that is long enough to be recognised"
	for body, want := range map[string]Class{
		`{"error":{"code":429,"message":"m"}}`:                                                RateLimited,
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`:         Overloaded,
		`{"type":"error","error":{"type":"rate_limit_error","message":"` + prompt + `"}}`:     RateLimited,
		`{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"m"}}`:   Quota,
		`{"error":{"type":"api_error","message":"Your credit balance is too low for this."}}`: Quota,
		`{"type":"error","error":{"type":"api_error"}}`:                                       Ambiguous,
		`{"error":{"code":402,"message":"m"}}`:                                                Quota, `{"error":{"code":"400","message":"m"}}`: Permanent, `{"error":{"code":401}}`: Permanent,
		`{"error":{"code":502,"message":"m"}}`: Ambiguous, `{"error":{"code":408}}`: Ambiguous, `{"error":{"code":503}}`: Overloaded, `{"error":{"code":529}}`: Overloaded,
		`{"error":{"code":200}}`: Ambiguous, `{"error":{"code":42900}}`: Ambiguous, `{"error":{"code":-429}}`: Ambiguous,
		`{}`: Ambiguous, `x`: Ambiguous, `null`: Ambiguous,
	} {
		for _, output := range []bool{false, true} {
			want := want
			if output {
				want = Ambiguous
			}
			f := RefusedInStream([]byte(body), 200, output, Report{WireRequests: 1}, prompt)
			if f.Class != want || f.WireRequests != 1 || strings.Contains(f.Message, "prompt that") {
				t.Errorf("%s, output %v: %+v, want %s", body, output, f, want)
			}
		}
	}
}
