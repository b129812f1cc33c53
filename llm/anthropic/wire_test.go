package anthropic

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fencepost/fencepost/llm"
)

func TestDecodeMessage(t *testing.T) {
	const usage = `"usage":{"input_tokens":5,"output_tokens":7,"cache_creation_input_tokens":2,"cache_read_input_tokens":3}`
	ok := func(content, stop string) string {
		return `{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":` + content + `,"stop_reason":` + stop + `,` + usage + `}`
	}
	const hi = `[{"type":"text","text":"hi"}]`
	for _, c := range []struct {
		name   string
		body   string
		class  llm.Class
		text   string
		finish string
		usage  bool
	}{
		{"end_turn", ok(hi, `"end_turn"`), "", "hi", "stop", true},
		{"stop_sequence", ok(hi, `"stop_sequence"`), "", "hi", "stop", true},
		{"max_tokens", ok(hi, `"max_tokens"`), "", "hi", "length", true},
		{"context window", ok(hi, `"model_context_window_exceeded"`), "", "hi", "length", true},
		{"blocks", ok(`[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a\u0000"},{"type":"new"},{"type":"text","text":"b"}]`, `"end_turn"`), "", "ab", "stop", true},
		{"no usage", `{"type":"message","content":` + hi + `,"stop_reason":"end_turn"}`, "", "hi", "stop", false},
		{"usage null", `{"type":"message","content":` + hi + `,"stop_reason":"end_turn","usage":null}`, "", "hi", "stop", false},
		{"usage half", `{"type":"message","content":` + hi + `,"stop_reason":"end_turn","usage":{"input_tokens":5}}`, "", "hi", "stop", false},
		{"usage negative", strings.Replace(ok(hi, `"end_turn"`), `:3}`, `:-3}`, 1), "", "hi", "stop", false},

		{"empty end_turn", ok(`[]`, `"end_turn"`), llm.RejectedOutput, "", "", true},
		{"thinking only", ok(`[{"type":"thinking","thinking":"hm"}]`, `"max_tokens"`), llm.RejectedOutput, "", "", true},
		{"refusal", ok(hi, `"refusal"`), llm.RejectedOutput, "", "", true},
		{"tool_use", ok(hi, `"tool_use"`), llm.RejectedOutput, "", "", true},
		{"pause_turn", ok(hi, `"pause_turn"`), llm.RejectedOutput, "", "", true},

		{"null stop", ok(hi, `null`), llm.Ambiguous, "", "", true},
		{"unknown stop", ok(hi, `"bored"`), llm.Ambiguous, "", "", true},
		{"stop a number", ok(hi, `3`), llm.Ambiguous, "", "", true},
		{"content a text", ok(`"hi"`, `"end_turn"`), llm.Ambiguous, "", "", true},
		{"no type", `{"content":` + hi + `,"stop_reason":"end_turn"}`, llm.Ambiguous, "", "", false},
		{"a chat completion", `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`, llm.Ambiguous, "", "", false},
		{"error", `{"type":"error","error":{"type":"api_error","message":"m"}}`, llm.Ambiguous, "", "", false},
		{"error beside a message", `{"error":"m",` + ok(hi, `"end_turn"`)[1:], llm.Ambiguous, "", "", true},
		{"null", `null`, llm.Ambiguous, "", "", false},
		{"nothing", ``, llm.Ambiguous, "", "", false},
		{"list", `[]`, llm.Ambiguous, "", "", false},
		{"html", `<html>`, llm.Ambiguous, "", "", false},
		{"cut", ok(hi, `"end_turn"`)[:80], llm.Ambiguous, "", "", false},
		{"trailing garbage", ok(hi, `"end_turn"`) + "x", llm.Ambiguous, "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := decodeMessage(llm.Response{Status: 200, Header: http.Header{}, Body: []byte(c.body)}, llm.Wire{Requests: 1})
			check(t, a, err, c.class, c.text, c.finish, c.usage)
		})
	}
}

var fiveSeven = llm.Usage{InputTokens: 5, OutputTokens: 7, CachedInputTokens: 3, CacheWriteTokens: 2}

func check(t *testing.T, a llm.Answer, err error, class llm.Class, text, finish string, usage bool) {
	t.Helper()
	report := a.Report
	if class == "" {
		if err != nil || a.Text != text || a.FinishReason != finish {
			t.Fatalf("%+v, %v", a, err)
		}
	} else {
		var f *llm.Failure
		if !errors.As(err, &f) || f.Class != class || a.Text != "" {
			t.Fatalf("%+v, %v; want %s", a, err, class)
		}
		report = f.Report
	}
	if report.WireRequests != 1 || (report.Usage != nil) != usage || usage && *report.Usage != fiveSeven {
		t.Errorf("report %+v, usage %+v", report, report.Usage)
	}
}

func sse(s string) string {
	var v struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal([]byte(s), &v)
	return "event: " + v.Type + "\ndata: " + s + "\n\n"
}

var (
	start = sse(`{"type":"message_start","message":{"id":"msg_1","model":"m-1","usage":{"input_tokens":5,"output_tokens":1,"cache_creation_input_tokens":2,"cache_read_input_tokens":3}}}`)
	ping  = sse(`{"type":"ping"}`)
	begin = sse(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	hi    = sse(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`)
	end   = sse(`{"type":"content_block_stop","index":0}`)
	delta = sse(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`)
	stop  = sse(`{"type":"message_stop"}`)
)

// feed gives the assembly a stream that ends cleanly, or as err says.
func feed(s string, err *llm.Failure) (llm.Answer, error) {
	var a assembly
	for _, e := range strings.Split(s, "\n\n") {
		typ, data, ok := strings.Cut(e, "\ndata: ")
		if ok && !a.take(llm.Event{Type: strings.TrimPrefix(typ, "event: "), Data: []byte(data)}) {
			err = nil
			break
		}
	}
	return a.answer(llm.Response{Status: 200, Header: http.Header{}}, llm.Wire{Requests: 1}, err)
}

func TestStreams(t *testing.T) {
	cut := func() *llm.Failure { return &llm.Failure{Class: llm.Ambiguous, Err: io.ErrUnexpectedEOF} }
	stopped := func(reason string) string { return strings.Replace(delta, "end_turn", reason, 1) }
	failed := func(kind string) string { return sse(`{"type":"error","error":{"type":"` + kind + `","message":"m"}}`) }
	for _, c := range []struct {
		name   string
		stream string
		err    *llm.Failure
		class  llm.Class
		text   string
		finish string
		usage  bool
	}{
		{"whole", start + ping + begin + hi + hi + end + delta + stop, nil, "", "hihi", "stop", true},
		{"limit", start + begin + hi + end + stopped("max_tokens") + stop, nil, "", "hi", "length", true},
		{"unknown kinds", sse(`{"type":"new"}`) + start + begin + hi + sse(`{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","text":"x"}}`) + end + delta + stop, nil, "", "hi", "stop", true},
		{"text of the block's start", start + strings.Replace(begin, `"text":""`, `"text":"oh "`, 1) + hi + end + delta + stop, nil, "", "oh hi", "stop", true},
		{"cumulative usage", start + begin + hi + end + strings.Replace(delta, `7}`, `3}`, 1) + strings.Replace(delta, `"end_turn"`, `null`, 1) + stop, nil, "", "hi", "stop", true},
		{"usage of the input again", start + begin + hi + end + strings.Replace(delta, `{"output_tokens":7}`, `{"output_tokens":7,"input_tokens":5,"cache_read_input_tokens":null}`, 1) + stop, nil, "", "hi", "stop", true},
		{"no usage at the end", start + begin + hi + end + strings.Replace(delta, `,"usage":{"output_tokens":7}`, ``, 1) + stop, nil, "", "hi", "stop", false},
		{"after the end", start + begin + hi + end + delta + stop + failed("api_error"), nil, "", "hi", "stop", true},
		{"cut behind the stop reason", start + begin + hi + end + delta, cut(), "", "hi", "stop", true},
		{"end behind the stop reason", start + begin + hi + end + delta, nil, "", "hi", "stop", true},

		{"empty", start + delta + stop, nil, llm.RejectedOutput, "", "", true},
		{"refusal", start + begin + hi + end + stopped("refusal") + stop, nil, llm.RejectedOutput, "", "", true},
		{"tool", start + begin + end + stopped("tool_use") + stop, nil, llm.RejectedOutput, "", "", true},
		{"cut behind a refusal", start + begin + hi + end + stopped("refusal"), cut(), llm.RejectedOutput, "", "", true},

		{"cut", start + begin + hi, cut(), llm.Ambiguous, "", "", false},
		{"clean end", start + begin + hi + end, nil, llm.Ambiguous, "", "", false},
		{"message_stop without a reason", start + begin + hi + end + stop, nil, llm.Ambiguous, "", "", false},
		{"block without an end", start + begin + hi + delta + stop, nil, llm.Ambiguous, "", "", true},
		{"unknown reason", start + begin + hi + end + stopped("bored") + stop, nil, llm.Ambiguous, "", "", true},
		{"text behind the reason", start + begin + hi + end + delta + hi + stop, nil, llm.Ambiguous, "", "", true},
		{"no start", begin + hi + end + delta + stop, nil, llm.Ambiguous, "", "", false},
		{"two messages", start + begin + hi + end + start + delta + stop, nil, llm.Ambiguous, "", "", false},
		{"nothing", "", nil, llm.Ambiguous, "", "", false},
		{"no JSON", start + "event: ping\ndata: x\n\n" + begin + hi + end + delta + stop, nil, llm.Ambiguous, "", "", false},
		{"overloaded before output", start + ping + failed("overloaded_error"), nil, llm.Overloaded, "", "", false},
		{"rate before output", failed("rate_limit_error"), nil, llm.RateLimited, "", "", false},
		{"overloaded after output", start + begin + hi + failed("overloaded_error"), nil, llm.Ambiguous, "", "", false},
		{"error without its member", "event: error\ndata: {}\n\n" + start + begin + hi + end + delta + stop, nil, llm.Ambiguous, "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := feed(c.stream, c.err)
			check(t, a, err, c.class, c.text, c.finish, c.usage)
		})
	}
}

func TestEncode(t *testing.T) {
	temp, limit := 0.5, 9
	for _, c := range []struct {
		req    llm.Request
		stream bool
		want   string
	}{
		{llm.Request{Model: "m", Content: "c\x00"}, false, `{"model":"m","max_tokens":4096,"messages":[{"role":"user","content":"c"}]}`},
		{llm.Request{Model: "m", Content: "c", System: "s\xff", Temperature: &temp, MaxOutputTokens: &limit}, true,
			`{"model":"m","max_tokens":9,"system":"s�","messages":[{"role":"user","content":"c"}],"temperature":0.5,"stream":true}`},
	} {
		if got, err := encode(c.req, c.stream); err != nil || string(got) != c.want {
			t.Errorf("%s, %v", got, err)
		}
	}
}

func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`{"type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`,
		start + begin + hi + end + delta + stop, start + hi, begin, stop, delta, `null`, `{"error":"x"}`, `{"content":[null]}`,
		sse(`{"type":"error","error":{"type":"overloaded_error"}}`), "event: x\ndata: null\n\n", "data: \xff\n\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		whole, wholeErr := decodeMessage(llm.Response{Status: 200, Header: http.Header{}, Body: []byte(s)}, llm.Wire{Requests: 1}, "sk-key-of-the-fuzzer")
		streamed, streamErr := feed(s, nil)
		for _, got := range []struct {
			a   llm.Answer
			err error
		}{{whole, wholeErr}, {streamed, streamErr}} {
			if got.err == nil {
				if got.a.Text == "" || !utf8.ValidString(got.a.Text) || strings.Contains(got.a.Text, "\x00") || got.a.FinishReason == "" {
					t.Errorf("accepted %+v", got.a)
				}
				continue
			}
			var fail *llm.Failure
			if !errors.As(got.err, &fail) || !utf8.ValidString(fail.Message) || len(fail.Message) > 600 || fail.WireRequests != 1 || !reflect.DeepEqual(got.a, llm.Answer{}) {
				t.Errorf("%+v, %v", got.a, got.err)
			}
		}
	})
}
