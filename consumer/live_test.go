package consumer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/consumer"
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// talker is a model that streams.
type talker struct{ *model }

func (m talker) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	for _, piece := range []string{"one ", "two ", "three"} {
		req.Text(piece)
	}
	return m.model.Call(ctx, req)
}

// The text of a running attempt can be read elsewhere while it runs, never together with another attempt's, and is gone
// when it has ended.
func TestLiveTextOfOneAttemptAtATime(t *testing.T) {
	w := newWorld(t, 1)
	first, second := make(chan struct{}), make(chan struct{})
	w.model.on("hello", func(_ context.Context, n int) (llm.Answer, error) {
		if n == 1 {
			<-first
			return fails(llm.Overloaded, 0)
		}
		<-second
		return answer("one two three"), nil
	})
	id := w.send(0, "a", "hello")
	w.startWith(talker{w.model}, "one", func(c *consumer.Config) { c.Live, c.LiveInterval = w.store, 5*time.Millisecond })

	read := func() (attempts map[int]string) {
		pieces, err := w.store.Live(t.Context(), []tasks.LiveCursor{{TaskID: id}})
		if err != nil {
			t.Fatal(err)
		}
		attempts = map[int]string{}
		next := map[int]int{}
		for _, p := range pieces {
			if p.Index != next[p.Attempt] {
				t.Fatalf("a piece begins at token %d, want %d", p.Index, next[p.Attempt])
			}
			next[p.Attempt] = p.Index + p.Tokens
			attempts[p.Attempt] += p.Text
		}
		return attempts
	}
	shows := func(attempt int) func() bool {
		return func() bool {
			got := read()
			if len(got) > 1 {
				t.Fatalf("two attempts at once: %v", got)
			}
			return got[attempt] == "one two three"
		}
	}
	eventually(t, "the first attempt's text is shown", shows(1))
	close(first)
	eventually(t, "the second attempt's text is shown", shows(2))
	close(second)
	w.finished(id, tasks.StatusCompleted)
	eventually(t, "the text is gone", func() bool { return len(read()) == 0 })
}

// What one attempt shows is bounded, and stops whole.
func TestLiveTextIsBounded(t *testing.T) {
	w := newWorld(t, 1)
	done := make(chan struct{})
	w.model.on("hello", func(context.Context, int) (llm.Answer, error) {
		<-done
		return answer("long"), nil
	})
	id := w.send(0, "a", "hello")
	w.startWith(flood{w.model}, "one", func(c *consumer.Config) { c.Live, c.LiveInterval = w.store, time.Millisecond })
	size := func() (n int) {
		pieces, err := w.store.Live(t.Context(), []tasks.LiveCursor{{TaskID: id}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pieces {
			n += len(p.Text)
		}
		return n
	}
	eventually(t, "some of it is shown", func() bool { return size() > tasks.MaxLiveText/2 })
	close(done)
	if n := size(); n > tasks.MaxLiveText {
		t.Errorf("%d bytes are shown", n)
	}
	w.finished(id, tasks.StatusCompleted)
}

type flood struct{ *model }

func (m flood) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	for range 20 {
		req.Text(strings.Repeat("x", tasks.MaxLiveText/16))
	}
	return m.model.Call(ctx, req)
}

// The conversation goes along, without the message itself and with what was answered.
func TestTheConversationIsSent(t *testing.T) {
	w := newWorld(t, 1)
	heard := &listener{model: w.model, got: make(chan llm.Request, 10)}
	w.startWith(heard, "one", func(c *consumer.Config) { c.HistoryTurns = 2 })
	for _, content := range []string{"one", "two", "three", "four"} {
		w.finished(w.send(0, "a", content), tasks.StatusCompleted)
	}
	var last llm.Request
	for range 4 {
		last = <-heard.got
	}
	var said []string
	for _, m := range last.History {
		said = append(said, string(m.Role)+": "+m.Text)
	}
	if got := strings.Join(said, ", "); got != "user: two, assistant: re: two, user: three, assistant: re: three" || last.Content != "four" {
		t.Errorf("%s; then %s", got, last.Content)
	}
	page, err := w.store.Tasks(t.Context(), tasks.Filter{Workspace: workspace, Limit: 1})
	if err != nil || page[0].HistoryTurns != 2 || page[0].HistoryDropped != 1 {
		t.Errorf("the task says %+v, %v", page, err)
	}
}

type listener struct {
	*model
	got chan llm.Request
}

func (m *listener) Call(ctx context.Context, req llm.Request) (llm.Answer, error) {
	m.got <- req
	return m.model.Call(ctx, req)
}
