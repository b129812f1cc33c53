package openai_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/llm/anthropic"
	"github.com/fencepost/fencepost/llm/openai"
)

// keyed are the adapters that can send a key, each with an answer of its language.
var keyed = map[string]struct {
	open func(t *testing.T, s *scripted, way llm.RecoveryConfig, keep time.Duration) llm.Recoverer
	body string
}{
	"chat": {func(t *testing.T, s *scripted, way llm.RecoveryConfig, keep time.Duration) llm.Recoverer {
		return newChat(t, s, openai.Config{Recovery: way, HTTP: llm.TransportConfig{KeepAlive: keep}})
	}, stored("x", "hello", `"stop"`)},
	"responses": {func(t *testing.T, s *scripted, way llm.RecoveryConfig, keep time.Duration) llm.Recoverer {
		return newResponses(t, s, openai.Config{Recovery: way, HTTP: llm.TransportConfig{KeepAlive: keep}})
	}, completed("hello")},
	"messages": {func(t *testing.T, s *scripted, way llm.RecoveryConfig, keep time.Duration) llm.Recoverer {
		p, err := anthropic.New(anthropic.Config{BaseURL: s.URL, Recovery: way, HTTP: llm.TransportConfig{KeepAlive: keep}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}, `{"type":"message","id":"msg_1","model":"m-1","stop_reason":"end_turn","content":[{"type":"text","text":"hello"}],"usage":{"input_tokens":5,"output_tokens":7}}`},
}

func byKey() llm.RecoveryConfig {
	return llm.RecoveryConfig{Kind: llm.RecoverKey, Retention: time.Hour, Header: "X-Idempotency-Key"}
}

// The attempt's name goes along as its key, noted before anything is sent; the same request under the same key asks for
// the answer.
func TestKeyIsNotedAndSent(t *testing.T) {
	for name, adapter := range keyed {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r asked) { answerJSON(w, 200, adapter.body) })
			p := adapter.open(t, s, byKey(), 0)
			noted := ""
			req := llm.Request{Model: "m", Content: "c", Op: "op-1", Noted: func(_ context.Context, ref string) error {
				if s.asks("") != 0 {
					t.Error("noted after it was sent")
				}
				noted += ref
				return nil
			}}
			a, err := p.Call(context.Background(), req)
			if err != nil || a.Text != "hello" || a.WireRequests != 1 || noted != "op-1" {
				t.Fatalf("%+v, %v, noted %q", a, err, noted)
			}
			first := s.last(t, "POST")
			req.Op = "op-2"
			a, err = p.Recover(context.Background(), req, llm.Lost{Op: "op-1", Ref: noted, Same: true, Age: time.Minute})
			if err != nil || a.Text != "hello" || a.WireRequests != 1 || s.asks("") != 2 {
				t.Fatalf("%+v, %v", a, err)
			}
			again := s.last(t, "POST")
			if key := first.header.Get("X-Idempotency-Key"); key != "op-1" || again.header.Get("X-Idempotency-Key") != key || first.body != again.body || first.what != again.what {
				t.Errorf("first %q %s, then %q %s", key, first.body, again.header.Get("X-Idempotency-Key"), again.body)
			}

			down := errors.New("the database is down")
			req.Noted = func(context.Context, string) error { return down }
			var f *llm.Failure
			if _, err := p.Call(context.Background(), req); !errors.As(err, &f) || f.Class != llm.NotSent || !errors.Is(err, down) || s.asks("") != 2 {
				t.Errorf("%v", err)
			}
			req.Op = "two\r\nlines"
			if _, err := p.Call(context.Background(), req); !errors.As(err, &f) || f.Class != llm.Permanent || s.asks("") != 2 {
				t.Errorf("%v", err)
			}
		})
	}
}

// Without a declared key none is sent, whatever the attempt is called.
func TestNoKeyUnasked(t *testing.T) {
	for name, adapter := range keyed {
		s := serve(t, func(w http.ResponseWriter, r asked) { answerJSON(w, 200, adapter.body) })
		p := adapter.open(t, s, llm.RecoveryConfig{}, 0)
		if _, err := p.Call(context.Background(), llm.Request{Model: "m", Content: "c", Op: "op-1"}); err != nil {
			t.Fatal(err)
		}
		for header, values := range s.last(t, "POST").header {
			if strings.Contains(strings.Join(values, " "), "op-1") {
				t.Errorf("%s: %s is sent", name, header)
			}
		}
		_, err := p.Recover(context.Background(), llm.Request{Model: "m", Content: "c"}, llm.Lost{Op: "op-1", Ref: "op-1", Same: true})
		if !errors.Is(err, llm.ErrNoTrace) || s.asks("") != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecoverByKey(t *testing.T) {
	lost := llm.Lost{Op: "op-1", Ref: "op-1", Same: true, Age: time.Minute}
	change := func(f func(*llm.Lost)) llm.Lost { l := lost; f(&l); return l }
	for _, c := range []struct {
		name  string
		lost  llm.Lost
		reply reply
		class llm.Class
		err   error
		sent  int
	}{
		{"nothing noted", change(func(l *llm.Lost) { l.Ref = "" }), reply{}, llm.Ambiguous, llm.ErrNoTrace, 0},
		{"no key", change(func(l *llm.Lost) { l.Ref = "two words" }), reply{}, llm.Ambiguous, llm.ErrNoTrace, 0},
		{"another request", change(func(l *llm.Lost) { l.Same = false }), reply{}, llm.Ambiguous, llm.ErrNoTrace, 0},
		{"forgotten", change(func(l *llm.Lost) { l.Age = time.Hour }), reply{}, llm.Ambiguous, llm.ErrNoTrace, 0},
		{"in progress", lost, reply{status: 409, body: `{"error":{"message":"m"}}`}, llm.Ambiguous, llm.ErrInProgress, 1},
		{"conflict", lost, reply{status: 422, body: `{"error":{"message":"m"}}`}, llm.Ambiguous, llm.ErrNoTrace, 1},
		{"the question is refused", lost, reply{status: 401, body: `{}`}, llm.NotSent, nil, 1},
		{"the question comes too fast", lost, reply{status: 429, body: `{}`}, llm.NotSent, nil, 1},
		{"no money for the question", lost, reply{status: 402, body: `{}`}, llm.NotSent, nil, 1},
		{"it was refused then, too", lost, reply{status: 400, body: `{}`}, llm.Permanent, nil, 1},
		{"lost again", lost, reply{dies: true}, llm.Ambiguous, nil, 1},
		{"server error", lost, reply{status: 500, body: `{}`}, llm.Ambiguous, nil, 1},
	} {
		for name, adapter := range keyed {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				s := serve(t, func(w http.ResponseWriter, r asked) { c.reply.send(w) })
				_, err := adapter.open(t, s, byKey(), 0).Recover(context.Background(), llm.Request{Model: "m", Content: "c", Op: "op-2"}, c.lost)
				var f *llm.Failure
				if !errors.As(err, &f) || f.Class != c.class || c.err != nil && !errors.Is(err, c.err) {
					t.Fatalf("%v", err)
				}
				for _, other := range []error{llm.ErrNoTrace, llm.ErrInProgress} {
					if other != c.err && errors.Is(err, other) {
						t.Errorf("%v", other)
					}
				}
				if s.asks("") != c.sent || f.WireRequests != c.sent || errors.Is(err, llm.ErrInProgress) != (f.RetryAfter >= time.Second) {
					t.Errorf("%d sent, %+v", s.asks(""), f)
				}
			})
		}
	}
}

// The key gives no layer below leave to send the request again: a kept connection that breaks under the second call shows
// one request for each.
func TestI5_KeyCausesNoReplay(t *testing.T) {
	for name, adapter := range keyed {
		for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key", "Request-Key"} {
			t.Run(name+"/"+header, func(t *testing.T) {
				s := serve(t, func(w http.ResponseWriter, r asked) {
					if r.header.Get(header) == "op-2" {
						die()
					}
					answerJSON(w, 200, adapter.body)
				})
				way := byKey()
				way.Header = header
				p := adapter.open(t, s, way, time.Minute)
				if _, err := p.Call(context.Background(), llm.Request{Model: "m", Content: "c", Op: "op-1"}); err != nil {
					t.Fatal(err)
				}
				first := s.last(t, "POST")
				_, err := p.Call(context.Background(), llm.Request{Model: "m", Content: "c", Op: "op-2"})
				if s.last(t, "POST").from != first.from {
					t.Error("the connection was not kept: this shows nothing")
				}
				var f *llm.Failure
				if !errors.As(err, &f) || f.Class != llm.Ambiguous || f.WireRequests != 1 || s.asks("POST") != 2 {
					t.Fatalf("%d at the server, %+v", s.asks("POST"), err)
				}
			})
		}
	}
}
