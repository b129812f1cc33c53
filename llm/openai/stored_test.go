package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/openai"
)

func newChat(t *testing.T, s *scripted, cfg openai.Config) *openai.Provider {
	t.Helper()
	cfg.BaseURL = s.URL + "/v1"
	return newProvider(t, cfg)
}

// stored is an item of a list, under a name.
func stored(op, text, finish string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion","model":"m-1","metadata":{"fencepost_op":"` + op + `"},"choices":[{"index":0,"message":{"role":"assistant","content":"` +
		text + `"},"finish_reason":` + finish + `}],"usage":{"prompt_tokens":5,"completion_tokens":7}}`
}

func list(items ...string) reply {
	return reply{status: 200, body: `{"object":"list","data":[` + strings.Join(items, ",") + `],"has_more":false}`}
}

// A chat completion that is to be found again is stored under the attempt's name.
func TestStoredRequest(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r asked) { answerJSON(w, 200, stored("x", "hi", `"stop"`)) })
	p := newChat(t, s, openai.Config{Recovery: quick(llm.RecoverStored)})
	if _, err := p.Call(context.Background(), llm.Request{Model: "m", Content: "c", Op: "op-1"}); err != nil {
		t.Fatal(err)
	}
	sent := s.last(t, "POST /v1/chat/completions")
	if meta, err := json.Marshal(sent.field(t, "metadata")); err != nil || sent.field(t, "store") != true || string(meta) != `{"fencepost_op":"op-1"}` {
		t.Errorf("sent %s", sent.body)
	}
	for _, op := range []string{"", "two words", "line\nend", "ä", strings.Repeat("x", 256)} {
		_, err := p.Call(context.Background(), llm.Request{Model: "m", Content: "c", Op: op})
		var f *llm.Failure
		if !errors.As(err, &f) || f.Class != llm.Permanent || f.WireRequests != 0 || s.asks("POST") != 1 {
			t.Errorf("%q: %v", op, err)
		}
	}
	plain := newChat(t, s, openai.Config{})
	if _, err := plain.Call(context.Background(), llm.Request{Model: "m", Content: "c", Op: "op-1"}); err != nil || strings.Contains(s.last(t, "POST").body, "stor") {
		t.Errorf("stored unasked: %s, %v", s.last(t, "POST").body, err)
	}
}

func TestRecoverStored(t *testing.T) {
	mine, other := stored("op-1", "hello", `"stop"`), stored("op-2", "not yours", `"stop"`)
	nameless := strings.Replace(other, `"metadata":{"fencepost_op":"op-2"}`, `"metadata":null`, 1)
	const old, young = 2 * time.Hour, 0
	for _, c := range []struct {
		name    string
		age     time.Duration
		looking []reply
		class   llm.Class // "": hello
		noTrace bool
		usage   bool
		asks    int // -1: several
	}{
		{"there", young, []reply{list(mine)}, "", false, true, 1},
		{"there, late", old, []reply{list(mine)}, "", false, true, 1},
		{"shown later", young, []reply{list(), list(), list(mine)}, "", false, true, 3},
		{"the filter is not known", young, []reply{list(other, nameless), list(other, nameless, mine)}, "", false, true, 2},
		{"busy", young, []reply{busy, {dies: true}, list(mine)}, "", false, true, 3},
		{"shown before it is whole", young, []reply{list(stored("op-1", "hel", "null")), list(mine)}, "", false, true, 2},
		{"never whole", old, []reply{list(stored("op-1", "hel", "null"))}, llm.Ambiguous, true, true, 1},
		{"cut by the limit, empty", old, []reply{list(stored("op-1", "", `"length"`))}, llm.RejectedOutput, false, true, 1},
		{"filtered", young, []reply{list(stored("op-1", "hel", `"content_filter"`))}, llm.RejectedOutput, false, true, 1},
		{"not there", old, []reply{list()}, llm.Ambiguous, true, false, 1},
		{"only another's", old, []reply{list(other, nameless)}, llm.Ambiguous, true, false, 1},
		{"too old", 40 * 24 * time.Hour, []reply{list(mine)}, llm.Ambiguous, true, false, 0},
		{"no such list", young, []reply{unknown}, llm.Ambiguous, true, false, 1},
		{"no such method", young, []reply{{status: 405, body: `{}`}}, llm.Ambiguous, true, false, 1},
		{"no list", young, []reply{{status: 200, body: "<html>"}}, llm.NotSent, false, false, 1},
		{"the question is refused", young, []reply{{status: 401, body: `{}`}}, llm.NotSent, false, false, 1},
		{"the question is never answered", young, []reply{busy}, llm.NotSent, false, false, -1},
		{"the connection always dies", young, []reply{{dies: true}}, llm.NotSent, false, false, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var looked atomic.Int64
			s := serve(t, func(w http.ResponseWriter, r asked) {
				w.Header().Set("X-Request-Id", "req_of_the_question")
				c.looking[min(int(looked.Add(1)), len(c.looking))-1].send(w)
			})
			a, err := newChat(t, s, openai.Config{Recovery: quick(llm.RecoverStored)}).
				Recover(context.Background(), llm.Request{Model: "m", Content: "c"}, llm.Lost{Op: "op-1", Age: c.age})
			report := a.Report
			if c.class == "" {
				if err != nil || a.Text != "hello" || a.RequestID != "chatcmpl-1" || a.Model != "m-1" {
					t.Fatalf("%+v, %v", a, err)
				}
			} else {
				var f *llm.Failure
				if !errors.As(err, &f) || f.Class != c.class || errors.Is(err, llm.ErrNoTrace) != c.noTrace || a.Text != "" {
					t.Fatalf("%+v, %v; want %s", a, err, c.class)
				}
				report = f.Report
			}
			asks := s.asks("GET")
			if s.asks("POST") != 0 || report.WireRequests != 0 || report.Lookups != asks || (report.Usage != nil) != c.usage {
				t.Errorf("%d POSTs, %+v", s.asks("POST"), report)
			}
			if c.asks >= 0 && asks != c.asks || c.asks < 0 && (asks < 2 || asks > 20) {
				t.Errorf("asked %d times", asks)
			}
			if asks > 0 && !strings.Contains(s.last(t, "GET /v1/chat/completions?").what, "metadata%5Bfencepost_op%5D=op-1") {
				t.Errorf("asked %s", s.last(t, "GET").what)
			}
		})
	}
}

// A miss counts only when the answer had time to appear; until then the context ends the wait, and nothing is concluded.
func TestRecoverStoredWaits(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r asked) { list().send(w) })
	way := quick(llm.RecoverStored)
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("the worker stops")
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for s.asks("GET") < 3 {
			time.Sleep(time.Millisecond)
		}
		cancel(stop)
	}()
	_, err := newChat(t, s, openai.Config{Recovery: way}).Recover(ctx, llm.Request{Model: "m", Content: "c"}, llm.Lost{Op: "op-1"})
	<-finished
	var f *llm.Failure
	if !errors.As(err, &f) || f.Class != llm.NotSent || errors.Is(err, llm.ErrNoTrace) || !errors.Is(err, stop) || f.Lookups != s.asks("GET") {
		t.Fatalf("%+v", err)
	}
	way.SettleDelay = 20 * time.Millisecond
	before := s.asks("GET")
	_, err = newChat(t, s, openai.Config{Recovery: way}).Recover(context.Background(), llm.Request{Model: "m", Content: "c"}, llm.Lost{Op: "op-1"})
	if !errors.Is(err, llm.ErrNoTrace) || s.asks("GET") < before+2 {
		t.Fatalf("%v after %d questions", err, s.asks("GET")-before)
	}
}
