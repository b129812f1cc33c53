package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fencepost/fencepost/llm"
)

const wholeResponse = `{"id":"resp_1","model":"m","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":1,"output_tokens":2}}`

// fit checks what holds of every outcome, whatever a server says.
func fit(t *testing.T, a llm.Answer, err error) {
	t.Helper()
	if err == nil {
		if strings.TrimSpace(a.Text) == "" || !utf8.ValidString(a.Text) || strings.Contains(a.Text, "\x00") || a.FinishReason == "" {
			t.Errorf("accepted %+v", a)
		}
		return
	}
	var f *llm.Failure
	if !errors.As(err, &f) || !slices.Contains(llm.Classes, f.Class) || f.Class == llm.NotSent {
		t.Fatalf("%T %v", err, err)
	}
	if !utf8.ValidString(f.Message) || len(f.Message) > 600 || f.WireRequests != 1 || a.Text != "" {
		t.Errorf("%+v", f)
	}
}

func FuzzDecodeResponse(f *testing.F) {
	for _, s := range []string{
		wholeResponse, `null`, `[]`, `x`, `{"status":"failed","error":{"code":"rate_limit_exceeded"}}`, `{"status":"failed","error":"x"}`, `{"error":{"code":429}}`,
		`{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[null,{"type":"message","content":[null]}]}`,
		`{"status":3,"id":{},"model":[],"usage":{"input_tokens":-1}}`, "{\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"\xff\\u0000\\ud800\"}]}]}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, a, err := decodeResponse(body, 200, llm.Report{WireRequests: 1}, "sk-key-of-the-fuzzer")
		fit(t, a, err)
		if err == nil && (!json.Valid(body) || r == nil || r.running()) {
			t.Errorf("accepted %s", body)
		}
	})
}

// An answer comes of a stream only by an event that ends it with the whole.
func FuzzResponseEvents(f *testing.F) {
	const created, piece = `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress"}}`, `{"type":"response.output_text.delta","delta":"h"}`
	for _, s := range []string{
		created + "\n" + piece + "\n" + `{"type":"response.completed","response":` + wholeResponse + "}",
		created + "\n" + `{"type":"response.completed","response":null}`, "[DONE]", "null", `{"type":"error","code":"x"}`, `{"response":{"id":{"a":1}}}`,
		created + "\n" + `{"type":"response.failed","response":{"status":"failed"}}`, piece + "\n" + `{"type":"response.completed","response":{"status":"completed","output":[]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		told := 0
		a := events{told: func(piece string) { told += len(piece) }}
		var last []byte
		for line := range bytes.SplitSeq(stream, []byte("\n")) {
			last = line
			if !a.take(llm.Event{Data: line}) {
				break
			}
		}
		answer, err := a.answer(200, llm.Report{WireRequests: 1}, nil, "sk-key-of-the-fuzzer")
		fit(t, answer, err)
		if told > 3*len(stream) { // a byte that is no text becomes a rune of three
			t.Errorf("told %d bytes of %d", told, len(stream))
		}
		if err != nil {
			return
		}
		var end struct {
			Type     string
			Response struct{ Status string }
		}
		if json.Unmarshal(last, &end) != nil || !strings.HasPrefix(end.Type, "response.") || end.Response.Status != "completed" && end.Response.Status != "incomplete" {
			t.Errorf("accepted %+v of %s", answer, stream)
		}
	})
}
