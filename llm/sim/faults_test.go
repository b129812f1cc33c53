package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fencepost/fencepost/llm"
)

// wire is one of the protocols, as its clients see it.
type wire struct {
	path, last string // of a stream
	piece      string // in the line of every piece of text
	body       func(content string, stream bool) string
}

var wires = []wire{
	{"/v1/chat/completions", "data: [DONE]\n\n", `"content":"`, func(content string, stream bool) string {
		return fmt.Sprintf(`{"model":"m","stream":%v,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":%q}]}`, stream, content)
	}},
	{"/v1/messages", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", `"text_delta"`, func(content string, stream bool) string {
		return fmt.Sprintf(`{"model":"m","max_tokens":50,"stream":%v,"messages":[{"role":"user","content":%q}]}`, stream, content)
	}},
	{"/v1/responses", `"type":"response.completed"}` + "\n\n", `"response.output_text.delta"}`, func(content string, stream bool) string {
		return fmt.Sprintf(`{"model":"m","stream":%v,"input":%q}`, stream, content)
	}},
}

// post sends a request over a connection of its own: net/http repeats one that carries a key on a used connection.
func post(t testing.TB, url, body string) (*http.Response, []byte, error) {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return resp, out, err
}

// pieceLines are the lines with a piece of text in them.
func (p wire) pieceLines(stream []byte) (out [][]byte) {
	for _, line := range bytes.Split(stream, []byte("\n")) {
		if bytes.HasPrefix(line, []byte("data: ")) && bytes.Contains(line, []byte(p.piece)) && !bytes.Contains(line, []byte(`"role":"assistant"`)) {
			out = append(out, line)
		}
	}
	return out
}

// A lost answer was billed, a refused call was not, a whole one ends with its terminal marker, and the ledger says what
// was done.
func TestFaults(t *testing.T) {
	_, url := newServer(t, Config{})
	c := llm.NewClient(llm.TransportConfig{})
	for _, p := range wires {
		for _, act := range actions {
			do := act.word
			if do == doHang || do == doStall { // they end when the client leaves
				continue
			}
			for _, stream := range []bool{false, true} {
				request(t, "DELETE", url+"/sim/requests", "")
				rules(t, url, `[{"do":"`+do+`"}]`)
				req, err := http.NewRequest("POST", url+p.path, strings.NewReader(p.body("hello world, this is a text of some length", stream)))
				if err != nil {
					t.Fatal(err)
				}
				resp, _, err := c.Do(context.Background(), req)
				torn := do == doResetAfterHeaders || do == doResetBeforeHeaders || do == doCutStream || do == doCutEvent
				if (err != nil) != torn {
					t.Errorf("%s %s: %d %q %v", p.path, do, resp.Status, resp.Body, err)
				}
				terminal := bytes.HasSuffix(resp.Body, []byte(p.last))
				if whole := !act.lost && do != doNoMarker; stream && terminal != whole {
					t.Errorf("%s %s: stream %q", p.path, do, resp.Body)
				}
				list := listed(t, url)
				if len(list) != 1 || list[0].Done != do || list[0].ClientGone || (list[0].InputTokens == 0) != (do == doStatus) || total(t, url).InFlight != 0 {
					t.Errorf("%s %s: %+v", p.path, do, list)
				}
			}
		}
	}
}

// Faults come after as many pieces as the rule says.
func TestChunksBeforeAFault(t *testing.T) {
	_, url := newServer(t, Config{})
	content := strings.Repeat("0123456789", 6) // with "echo: " it is 66 bytes, five pieces
	for _, p := range wires {
		for rule, want := range map[string]int{
			`{}`: 5, `{"do":"no_marker"}`: 5,
			`{"do":"end_early"}`: 2, `{"do":"end_early","chunks":0}`: 0, `{"do":"end_early","chunks":4}`: 4, `{"do":"end_early","chunks":99}`: 5,
			`{"do":"error_before_output"}`: 0, `{"do":"error_after_output"}`: 2, `{"do":"error_before_output","chunks":1}`: 1,
		} {
			rules(t, url, "["+rule+"]")
			_, out, err := post(t, url+p.path, p.body(content, true))
			if got := len(p.pieceLines(out)); err != nil || got != want {
				t.Errorf("%s %s: %d pieces, want %d: %v\n%s", p.path, rule, got, want, err, out)
			}
		}
	}
}

// An early end is no error to who reads it; a cut is one, and may be within a character.
func TestHowAnswersEnd(t *testing.T) {
	_, url := newServer(t, Config{})
	for _, p := range wires {
		for _, stream := range []bool{false, true} {
			rules(t, url, `[{"do":"end_early"}]`)
			resp, out, err := post(t, url+p.path, p.body("hello", stream))
			if err != nil || resp.ContentLength >= 0 || len(resp.TransferEncoding) > 0 || len(out) == 0 {
				t.Errorf("%s: length %d, %v, %v: %q", p.path, resp.ContentLength, resp.TransferEncoding, err, out)
			}
			rules(t, url, `[{"do":"cut_event","text":"ääääääääääääääääää","chunks":1}]`)
			if !stream {
				rules(t, url, `[{"do":"cut_event","text":"ääääääääääääääääää"}]`)
			}
			_, out, err = post(t, url+p.path, p.body("hello", stream))
			if !errors.Is(err, io.ErrUnexpectedEOF) || utf8.Valid(out) {
				t.Errorf("%s: %v: %q", p.path, err, out)
			}
		}
	}
}

// What the rules send in place of the real thing arrives as it is.
func TestOddAnswers(t *testing.T) {
	_, url := newServer(t, Config{})
	for _, c := range []struct {
		rule   string
		stream bool
		want   [3]string // in each protocol
	}{
		{`{"do":"bad_text","text":"x"}`, false, [3]string{"x\\u0000\\ud800\xff\xfe\"", "x\\u0000\\ud800\xff\xfe\"", "x\\u0000\\ud800\xff\xfe\""}},
		{`{"do":"bad_text","text":"x"}`, true, [3]string{"x\\u0000\\ud800\xff\xfe\"", "x\\u0000\\ud800\xff\xfe\"", "x\\u0000\\ud800\xff\xfe\""}},
		{`{"finish_reason":"odd"}`, false, [3]string{`"finish_reason":"odd"`, `"stop_reason":"odd"`, `"incomplete_details":{"reason":"odd"}`}},
		{`{"finish_reason":"odd"}`, true, [3]string{`"finish_reason":"odd"`, `"stop_reason":"odd"`, `"incomplete_details":{"reason":"odd"}`}},
		{`{"finish_reason":""}`, false, [3]string{`"finish_reason":null`, `"stop_reason":null`, `"created_at":1767225600,"background"`}},
		{`{"do":"refuse","text":"no"}`, false, [3]string{`"refusal":"no"`, `"stop_reason":"refusal"`, `{"type":"refusal","refusal":"no"}`}},
		{`{"do":"tool_call"}`, true, [3]string{`"finish_reason":"tool_calls"`, `"stop_reason":"tool_use"`, `"type":"function_call"`}},
		{`{"do":"early_usage"}`, true, [3]string{`"usage":{"prompt_tokens":0,`, `"usage":{"input_tokens":0,`, `"usage":{"input_tokens":0,`}},
		{`{"input_tokens":10,"cached_tokens":6,"cache_write_tokens":9}`, false, [3]string{
			`"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":6,"cache_write_tokens":4}`,
			`"input_tokens":0,"cache_creation_input_tokens":4,"cache_read_input_tokens":6`,
			`"input_tokens":10,"input_tokens_details":{"cached_tokens":6,"cache_write_tokens":4}`,
		}},
		{`{"output_tokens":7,"reasoning_tokens":9}`, false, [3]string{`"reasoning_tokens":7`, `"thinking_tokens":7`, `"reasoning_tokens":7`}},
		{`{"do":"error_before_output"}`, true, [3]string{
			`data: {"error":{"message":"simulated error in the stream","type":"server_error"`,
			"event: error\ndata: {\"error\":{\"message\":\"simulated error in the stream\",\"type\":\"api_error\"",
			"event: error\ndata: {\"code\":\"server_error\",\"message\":\"simulated error in the stream\"",
		}},
		{`{"do":"error_after_output","body":{"odd":1}}`, true, [3]string{"\n\ndata: {\"odd\":1}\n\n", "event: error\ndata: {\"odd\":1}\n\n", "event: error\ndata: {\"odd\":1}\n\n"}},
		{`{"do":"error_before_output"}`, false, [3]string{`{"error":{"message":"simulated`, `"type":"error"`, `{"error":{"message":"simulated`}},
		{`{"do":"fail","body":{"code":"c"}}`, false, [3]string{`{"code":"c"}`, `{"code":"c"}`, `"error":{"code":"c"}`}},
		{`{"do":"fail"}`, true, [3]string{`{"error":`, `event: error`, "event: response.failed\n"}},
		{`{"body":"null"}`, true, [3]string{"null", "null", "null"}},
		{`{"do":"status","status":502,"body":"<html>"}`, true, [3]string{"<html>", "<html>", "<html>"}},
	} {
		rules(t, url, "["+c.rule+"]")
		for i, p := range wires {
			resp, out, err := post(t, url+p.path, p.body("hello", c.stream))
			if err != nil || !bytes.Contains(out, []byte(c.want[i])) {
				t.Errorf("%s %s stream=%v: %v, want %q in\n%s", p.path, c.rule, c.stream, err, c.want[i], out)
			}
			if html := bytes.HasPrefix(out, []byte("<")); html != (resp.Header.Get("Content-Type") == "text/html") {
				t.Errorf("%s: %q is %s", c.rule, out, resp.Header.Get("Content-Type"))
			}
		}
	}
}

// A usage that is not to be reported is nowhere.
func TestNoUsage(t *testing.T) {
	_, url := newServer(t, Config{})
	rules(t, url, `[{"do":"no_usage"}]`)
	for _, p := range wires {
		for _, stream := range []bool{false, true} {
			if _, out, err := post(t, url+p.path, p.body("hello", stream)); err != nil || bytes.Contains(out, []byte("_tokens\":")) && p.path != "/v1/responses" ||
				bytes.Contains(out, []byte("input_tokens")) {
				t.Errorf("%s: %v: %s", p.path, err, out)
			}
		}
	}
}

// Lines are as long as the rule wants them, and say the same.
func TestLongLines(t *testing.T) {
	_, url := newServer(t, Config{})
	const long = 300_000
	for _, p := range wires {
		rules(t, url, fmt.Sprintf(`[{"line_bytes":%d,"text":"short"}]`, long))
		_, out, err := post(t, url+p.path, p.body("hello", true))
		lines := p.pieceLines(out)
		if err != nil || len(lines) != 1 || len(lines[0]) > long || len(lines[0]) < long-100 || !bytes.HasSuffix(out, []byte(p.last)) {
			t.Errorf("%s: %v, %d lines", p.path, err, len(lines))
		}
		if _, out, err = post(t, url+p.path, p.body("hello", false)); err != nil || len(out) != long || !bytes.Contains(out, []byte(`"short"`)) {
			t.Errorf("%s: %v, %d bytes", p.path, err, len(out))
		}
	}
}

// A stalled answer stands still until its client leaves, is under way in the ledger until then, and billed.
func TestStall(t *testing.T) {
	_, url := newServer(t, Config{})
	rules(t, url, `[{"do":"stall","chunks":1}]`)
	for i, p := range wires {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", url+p.path, strings.NewReader(p.body("hello, this is long", true)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for buf := make([]byte, 4096); len(p.pieceLines(got)) == 0; {
			n, err := resp.Body.Read(buf)
			if got = append(got, buf[:n]...); err != nil {
				t.Fatalf("%v: %s", err, got)
			}
		}
		if n := total(t, url); n.InFlight != 1 || n.Requests != int64(i+1) {
			t.Errorf("%+v", n)
		}
		cancel()
		resp.Body.Close()
		until(t, func() bool { return total(t, url).InFlight == 0 })
		if e := listed(t, url)[i]; !e.ClientGone || e.Done != doStall || e.OutputTokens != 7 {
			t.Errorf("%+v", e)
		}
	}
}

// Whether a client that leaves pays for the whole answer is a setting.
func TestBillOnDisconnect(t *testing.T) {
	_, url := newServer(t, Config{})
	rules(t, url, `[{"do":"stall","chunks":1,"input_tokens":100,"output_tokens":50}]`)
	for _, whole := range []bool{true, false} {
		set(t, url, fmt.Sprintf(`{"bill_on_disconnect":%v}`, whole))
		request(t, "DELETE", url+"/sim/requests", "")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", url+wires[0].path, strings.NewReader(wires[0].body("hello, this is long", true)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		resp.Body.Close()
		until(t, func() bool { n := total(t, url); return n.Requests == 1 && n.InFlight == 0 })
		want := int64(chunkBytes / 4) // one piece was written
		if whole {
			want = 50
		}
		if e := listed(t, url)[0]; e.InputTokens != 100 || e.OutputTokens != want {
			t.Errorf("whole=%v: %+v", whole, e)
		}
	}
}

func set(t testing.TB, url, settings string) {
	t.Helper()
	if status, out, err := request(t, "PUT", url+"/sim/settings", settings); err != nil || status != http.StatusNoContent {
		t.Fatalf("PUT settings: %d %s %v", status, out, err)
	}
}
