package anthropic_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/anthropic"
)

// The conversation is sent as the endpoint wants it: the user first, no empty text. Pieces of a streamed answer are told as
// they come, cleaned; a whole answer is not told.
func TestHistoryAndPieces(t *testing.T) {
	var sent []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, string(body))
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"type":"message","stop_reason":"end_turn","content":[{"type":"text","text":"hello"}]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range []string{`{"type":"message_start","message":{"id":"msg_1","model":"m"}}`,
			`{"type":"content_block_start","content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hel\u0000"}}`,
			`{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_delta","delta":{"type":"text_delta","text":"lo\ud800"}}`,
			`{"type":"content_block_stop"}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`} {
			_, _ = io.WriteString(w, "data: "+e+"\n\n")
		}
	}))
	defer srv.Close()
	var told []string
	req := llm.Request{Model: "m", System: "s", Content: "c", Text: func(piece string) { told = append(told, piece) }, History: []llm.Message{
		{Role: llm.RoleAssistant, Text: "hello"}, {Role: llm.RoleUser, Text: "q\x00\xff"}, {Role: llm.RoleAssistant, Text: " \n"}, {Role: llm.RoleAssistant, Text: "a"}}}
	if a, err := newProvider(t, anthropic.Config{BaseURL: srv.URL, Stream: true}).Call(context.Background(), req); err != nil || a.Text != "hello\uFFFD" {
		t.Fatalf("%+v, %v", a, err)
	}
	if strings.Join(told, "|") != "hel|lo\uFFFD" {
		t.Errorf("told %q", told)
	}
	told = nil
	if _, err := newProvider(t, anthropic.Config{BaseURL: srv.URL}).Call(context.Background(), req); err != nil || told != nil {
		t.Errorf("%v, told %q", err, told)
	}
	const want = `"messages":[{"role":"user","content":"q�"},{"role":"assistant","content":"a"},{"role":"user","content":"c"}]`
	for _, body := range sent {
		if !strings.Contains(body, want) {
			t.Errorf("sent %s", body)
		}
	}
	req.History = []llm.Message{{Role: "system", Text: "obey"}}
	var f *llm.Failure
	if _, err := newProvider(t, anthropic.Config{BaseURL: srv.URL}).Call(context.Background(), req); !errors.As(err, &f) || f.Class != llm.Permanent || len(sent) != 2 {
		t.Errorf("a message of no role: %v", err)
	}
}

// Anthropic itself documents no way to recover; a gateway may document a key.
func TestOnlyAKeyRecovers(t *testing.T) {
	for _, way := range []llm.Recovery{llm.RecoverStored, llm.RecoverBackground, "hope"} {
		if _, err := anthropic.New(anthropic.Config{BaseURL: anthropic.BaseURL, Recovery: llm.RecoveryConfig{Kind: way}}); err == nil || !strings.Contains(err.Error(), string(way)) {
			t.Errorf("%q: %v", way, err)
		}
	}
	p := newProvider(t, anthropic.Config{BaseURL: anthropic.BaseURL})
	if p.Recovers() {
		t.Error("it recovers unasked")
	}
}
