package httpapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

const helloStream = `{"model":"m-1","messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"hi there"}],"stream":true,"stream_options":{"include_usage":true}}`

// chatReader reads a streamed chat completion event by event.
type chatReader struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
}

// streamed asks for one, whose headers come with its first event.
func (a *api) streamed(key string) <-chan *chatReader {
	out := make(chan *chatReader, 1)
	r, err := http.NewRequest("POST", a.url+completions, strings.NewReader(helloStream))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + a.secret}, "Content-Type": {"application/json"}, "Idempotency-Key": {key}}
	go func() {
		resp, err := a.client.Do(r)
		if err != nil {
			a.t.Error(err)
			close(out)
			return
		}
		a.t.Cleanup(func() { resp.Body.Close() })
		out <- &chatReader{t: a.t.(*testing.T), resp: resp, in: bufio.NewReader(resp.Body)}
	}()
	return out
}

// next is the data of the next event that is not a comment.
func (c *chatReader) next() string {
	c.t.Helper()
	for {
		e, err := readSSE(c.in)
		if err != nil {
			c.t.Fatal(err)
		}
		if e.id != "" || e.name != "" {
			c.t.Errorf("event %+v has more than data", e)
		}
		if e.data != "" {
			return e.data
		}
	}
}

// delta is the content of the next chunk.
func (c *chatReader) delta() string {
	c.t.Helper()
	data := c.next()
	var v chunkView
	if err := json.Unmarshal([]byte(data), &v); err != nil || len(v.Choices) != 1 || v.Choices[0].Delta.Content == nil || string(v.Usage) != "null" {
		c.t.Fatalf("%s is no chunk of content: %v", data, err)
	}
	return *v.Choices[0].Delta.Content
}

// failed reads the error at the end of the stream, and nothing behind it.
func (c *chatReader) failed(code string) {
	c.t.Helper()
	var v chatErrorView
	if data := c.next(); json.Unmarshal([]byte(data), &v) != nil || v.Error.Code != code || v.Error.TaskID == "" {
		c.t.Errorf("%s, want an error %s", data, code)
	}
	if rest, err := io.ReadAll(c.in); err != nil || len(rest) > 0 {
		c.t.Errorf("behind the error: %q, %v", rest, err)
	}
}

// streaming begins a stream, its task and the first words.
func streaming(t *testing.T, a *api, words string) (*chatReader, uuid.UUID, tasks.Assignment) {
	t.Helper()
	opening := a.streamed("k1")
	id := a.bound(tasks.OperationChat, "k1")
	first := a.claim(id)
	a.publish(id, 1, 0, words)
	c := <-opening
	if c == nil {
		t.Fatal("no stream")
	}
	if h := c.resp.Header; c.resp.StatusCode != 200 || h.Get("Content-Type") != "text/event-stream" || h.Get("Fencepost-Task") != id.String() || h.Get("Idempotency-Replayed") != "" {
		t.Fatalf("status %d, headers %v", c.resp.StatusCode, h)
	}
	if data := c.next(); !strings.Contains(data, `"delta":{"role":"assistant","content":""}`) {
		t.Fatalf("first %s", data)
	}
	if got := c.delta(); got != words {
		t.Fatalf("words %q", got)
	}
	return c, id, first
}

func (a *api) publish(id uuid.UUID, version int64, index int, text string) {
	a.t.Helper()
	if err := a.store.(tasks.LiveTexts).Publish(a.t.Context(), []tasks.LivePiece{
		{TaskID: id, Version: version, Attempt: int(version), Index: index, Tokens: 1, Text: text},
	}); err != nil {
		a.t.Fatal(err)
	}
}

// asks is the next token that the reader of a task wants.
func (a *api) asks(id uuid.UUID) (next tasks.LiveCursor) {
	a.server.hub.mu.Lock()
	defer a.server.hub.mu.Unlock()
	if t := a.server.hub.topics[id]; t != nil && len(t.watchers) == 1 {
		next = t.watchers[0].cursor
	}
	return next
}

func TestChatStream(t *testing.T) { chatStreams(t, newAPI(t, nil)) }

func chatStreams(t *testing.T, a *api) {
	c, id, first := streaming(t, a, "Hel\nlo")
	a.publish(id, 1, 1, " <you>")
	if got := c.delta(); got != " <you>" {
		t.Errorf("then %q", got)
	}
	a.complete(first, "Hel\nlo <you> and me")
	if got := c.delta(); got != " and me" {
		t.Errorf("at last %q", got)
	}
	if data := c.next(); !strings.Contains(data, `"delta":{},"logprobs":null,"finish_reason":"stop"`) {
		t.Errorf("end %s", data)
	}
	if data := c.next(); !strings.Contains(data, `"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":34,`) {
		t.Errorf("usage %s", data)
	}
	if data := c.next(); data != "[DONE]" {
		t.Errorf("marker %s", data)
	}
	if rest, err := io.ReadAll(c.in); err != nil || len(rest) > 0 {
		t.Errorf("behind the marker: %q, %v", rest, err)
	}
	// The same again, streamed and whole.
	again := (<-a.chat("k1", helloStream)).want(t, 200)
	if again.Header.Get("Idempotency-Replayed") != "true" || again.Header.Get("Fencepost-Saved-Tokens") != "46" {
		t.Errorf("headers %v", again.Header)
	}
	if chunks := chunksOf(t, again.body); len(chunks) != 4 || !strings.Contains(chunks[1], `"content":"Hel\nlo <you> and me"`) {
		t.Errorf("chunks %q", chunks)
	}
	if got := (<-a.chat("k1", hello)).want(t, 200); !strings.Contains(string(got.body), `"content":"Hel\nlo \u003cyou\u003e and me"`) {
		t.Errorf("whole %s", got.body)
	}
}

// The second attempt says what the first one began to say: nobody can tell, and the stream goes on.
func TestChatStreamGoesOnBehindAnotherAttempt(t *testing.T) {
	a := newAPI(t, nil)
	c, id, first := streaming(t, a, "Hello")
	a.settle(first, tasks.Settlement{Outcome: tasks.OutcomeRetry, Failure: tasks.Failure{Class: "ambiguous"}})
	second := a.claim(id)
	a.publish(id, 2, 0, "Hello, once")
	a.complete(second, "Hello, once more")
	if got := c.delta(); got != ", once more" {
		t.Errorf("then %q", got)
	}
}

// Tokens of two attempts never make one answer.
func TestI1_ChatStreamNeverMixesAttempts(t *testing.T) {
	a := newAPI(t, nil)
	c, id, first := streaming(t, a, "Hello")
	a.settle(first, tasks.Settlement{Outcome: tasks.OutcomeRetry, Failure: tasks.Failure{Class: "ambiguous"}})
	second := a.claim(id)
	a.publish(id, 2, 0, "Good")
	eventually(t, "the stream has seen it", func() bool { return a.asks(id) == tasks.LiveCursor{TaskID: id, Version: 2, Index: 1} })
	a.complete(second, "Good day")
	c.failed("attempt_replaced")
	if chunks := chunksOf(t, (<-a.chat("k1", helloStream)).want(t, 200).body); !strings.Contains(chunks[1], `"content":"Good day"`) {
		t.Errorf("again %q", chunks)
	}
}

// Before its first token, an attempt that fails is nothing that a reader need know of.
func TestChatStreamBeginsWithTheAttemptThatAnswers(t *testing.T) {
	a := newAPI(t, nil)
	opening := a.streamed("k1")
	id := a.bound(tasks.OperationChat, "k1")
	a.settle(a.claim(id), tasks.Settlement{Outcome: tasks.OutcomeRetry, Failure: tasks.Failure{Class: "overloaded"}})
	second := a.claim(id)
	a.publish(id, 2, 0, "Good")
	c := <-opening
	if c.next(); c.delta() != "Good" {
		t.Error("not the second attempt's word")
	}
	a.complete(second, "Good day")
	if got := c.delta(); got != " day" {
		t.Errorf("then %q", got)
	}
}

func TestChatStreamThatFails(t *testing.T) {
	t.Run("for good", func(t *testing.T) {
		a := newAPI(t, nil)
		c, _, first := streaming(t, a, "Hello")
		a.settle(first, tasks.Settlement{Outcome: tasks.OutcomeFail, Failure: tasks.Failure{Class: "rejected_output", Message: "no"}})
		c.failed("rejected_output")
		(<-a.chat("k1", helloStream)).chatError(t, 422, "rejected_output", false)
	})
	t.Run("for too long", func(t *testing.T) {
		a := newAPI(t, func(c *Config) { c.Limits.MaxChatWait = time.Second })
		c, _, _ := streaming(t, a, "Hello")
		c.failed("idempotency_in_progress")
	})
	t.Run("draining", func(t *testing.T) {
		a := newAPI(t, nil)
		c, _, _ := streaming(t, a, "Hello")
		a.server.Drain()
		c.failed("overloaded")
	})
}

// Comments keep the connection alive while nothing comes, longer than every timeout of the server.
func TestChatStreamHeartbeat(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.server(nil)
		conn := b.dial(s)
		r, err := http.NewRequest("POST", "http://x"+completions, strings.NewReader(helloStream))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + b.api.secret}, "Content-Type": {"application/json"}, "Idempotency-Key": {"k1"}}
		if err := r.Write(conn); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), r)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan []byte)
		go func() {
			body, _ := io.ReadAll(resp.Body)
			got <- body
		}()
		time.Sleep(5 * time.Minute)
		id, err := uuid.Parse(resp.Header.Get("Fencepost-Task"))
		if err != nil {
			t.Fatal(err)
		}
		b.api.finish(id, "at last")
		body := <-got
		if n := bytes.Count(body, []byte(": \n\n")); n < 20 || n > 22 {
			t.Errorf("%d comments in %s", n, body)
		}
		if chunks := chunksOf(t, body); len(chunks) != 4 || !strings.Contains(chunks[1], `"content":"at last"`) {
			t.Errorf("chunks %q", chunks)
		}
	})
}

func FuzzChatBody(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(helloStream))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"\u00e9"}]}],"tools":[{"type":"function","function":{"name":"f"}}],"n":1.0,"seed":-1e2}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":""}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, p := parseChat(body)
		if p != nil {
			if p.Status != http.StatusBadRequest && p.Status != http.StatusRequestEntityTooLarge || p.Field == "" || len(p.Detail) > 1000 {
				t.Errorf("problem %+v", p)
			}
			return
		}
		// What is stored can be sent on, and is the same request to the next one who reads it.
		again := `{"messages":` + string(c.chat.Messages)
		if c.chat.Params != nil {
			members := strings.TrimPrefix(string(c.chat.Params), "{")
			again += "," + strings.TrimSuffix(members, "}")
		}
		d, p := parseChat([]byte(again + "}"))
		if p != nil {
			t.Fatalf("%s: %v", again, p)
		}
		asked := tasks.Submission{Kind: tasks.KindReply}
		if c.fingerprint(asked) != d.fingerprint(asked) || !bytes.Equal(c.chat.Messages, d.chat.Messages) || !bytes.Equal(c.chat.Params, d.chat.Params) {
			t.Errorf("%s is another request than %s", again, body)
		}
		if c.chat.Params != nil && !json.Valid(c.chat.Params) || !json.Valid(c.chat.Messages) {
			t.Errorf("%+v is no JSON", c.chat)
		}
	})
}

func TestPostgresChat(t *testing.T) {
	t.Run("runs once", func(t *testing.T) { chatRunsOnce(t, newPostgresAPI(t, nil)) })
	t.Run("streams", func(t *testing.T) { chatStreams(t, newPostgresAPI(t, nil)) })
	t.Run("tool calls", func(t *testing.T) { chatToolCalls(t, newPostgresAPI(t, nil)) })
	t.Run("big", func(t *testing.T) { chatIsBig(t, newPostgresAPI(t, nil)) })
}

func TestChatBig(t *testing.T) { chatIsBig(t, newAPI(t, nil)) }

// A body as large as a task can carry goes through byte for byte.
func chatIsBig(t *testing.T, a *api) {
	image := `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("iVBO", 1<<20-100) + `"}},{"type":"text","text":"what is it?"}]}]`
	body := `{"messages":` + image + `,"seed":1}`
	first := a.chat("k1", body)
	work := a.claimWork(a.bound(tasks.OperationChat, "k1"))
	if c := work.Request.Chat; string(c.Messages) != image || string(c.Params) != `{"seed":1}` || work.Request.Content != "what is it?" {
		t.Errorf("%d bytes of messages, params %s, content %q", len(c.Messages), c.Params, work.Request.Content)
	}
	a.complete(work.Assignment, "a picture")
	(<-first).want(t, 200)
	(<-a.chat("k1", body)).want(t, 200)
	(<-a.chat("k2", strings.Replace(body, "base64,", "base64,"+strings.Repeat("AAAA", 200), 1))).chatError(t, 413, "too_large", false)
}
