package procs

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// screen is a browser that shows one task: it keeps to the events' rule, and goes to the next process when a connection
// ends.
type screen struct {
	client *Client
	task   string
	// connected, when it is not nil, is called once the next connection is there.
	connected func()

	last     string // Last-Event-ID
	text     string
	attempt  int // of text
	index    int // of the next token
	resets   int
	replies  []string
	connects int
}

// read shows what comes until enough says so, or the events have ended.
func (s *screen) read(ctx context.Context, enough func() bool) error {
	for ctx.Err() == nil {
		node := s.client.Nodes[s.connects%len(s.client.Nodes)]
		s.connects++
		ended, err := s.connect(ctx, node, enough)
		if ended || err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return context.Cause(ctx)
}

// connect reads one connection. False: go on at another one.
func (s *screen) connect(ctx context.Context, node *Node, enough func() bool) (ended bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, node.API+"/v1/tasks/"+s.task+"/events", nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Authorization", "Bearer "+s.client.Key)
	if s.last != "" {
		req.Header.Set("Last-Event-ID", s.last)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return false, nil
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return true, nil
	case resp.StatusCode >= 500:
		return false, nil
	case resp.StatusCode != http.StatusOK:
		return false, fmt.Errorf("events: %s", resp.Status)
	}
	if s.connected != nil {
		s.connected()
		s.connected = nil
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var id, name, data string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			data = value
		case "":
			if name != "" {
				s.last = id
				if err := s.show(name, data); err != nil {
					return false, err
				}
				if enough() {
					return true, nil
				}
			}
			name, data = "", ""
		}
	}
	return false, nil
}

func (s *screen) show(name, data string) error {
	var v struct {
		Attempt, Index int
		Text           string
		Reply          *struct{ Text string }
		Error          *struct{ Class string }
	}
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		return fmt.Errorf("%s %q: %w", name, data, err)
	}
	switch name {
	case "token":
		if s.text != "" && v.Attempt != s.attempt || v.Index < s.index || s.text == "" && v.Index != 0 {
			return fmt.Errorf("token %d of attempt %d after %q, attempt %d, up to %d", v.Index, v.Attempt, s.text, s.attempt, s.index)
		}
		s.attempt, s.index, s.text = v.Attempt, v.Index+1, s.text+v.Text
	case "reset":
		s.resets++
		s.text, s.index = "", 0
	case "reply":
		s.replies = append(s.replies, v.Reply.Text)
	case "error":
		return fmt.Errorf("the task has failed: %s", data)
	}
	return nil
}

// A browser watches a task while the API it is connected to is killed, the worker is killed, and the next API is stopped.
// It is told of each attempt by itself, and gets the reply once.
func TestI1_AWatchedTaskOutlivesEveryProcess(t *testing.T) {
	t.Parallel()
	w := NewWorld(t, 2, append(quick, "--live-tokens")...)
	w.Model.Rules(`[{"times": 1, "text": "` + strings.Repeat("first ", 600) + `", "chunk_latency": "100ms"},
		{"text": "` + strings.Repeat("second ", 80) + `", "chunk_latency": "100ms"}]`)
	one, two := w.Node("front-1", "api,dispatcher"), w.Node("front-2", "api,dispatcher")
	worker, successor := w.Node("worker-1", "worker"), w.Node("worker-2", "worker")
	run(t, one, two, worker)
	client := &Client{Key: w.Key, Nodes: []*Node{one, two}}
	task, err := client.Submit(t.Context(), "c", "k", "tell me")
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{client: client, task: task.ID}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// read goes on until the text has so many bytes more.
	read := func(word string) {
		t.Helper()
		from := len(s.text)
		if err := s.read(ctx, func() bool { return strings.HasPrefix(s.text, word) && len(s.text) > from+20 }); err != nil {
			t.Fatal(err)
		}
		if strings.Trim(s.text, word+" ") != "" || s.last == "" {
			t.Fatalf("the screen says %q", s.text)
		}
	}
	// whileReading does something to the processes while the browser is connected, and reads on.
	whileReading := func(word string, do func()) {
		t.Helper()
		done := make(chan struct{})
		begin := sync.OnceFunc(func() {
			go func() {
				defer close(done)
				do()
			}()
		})
		s.connected = begin
		from := len(s.text)
		err := s.read(ctx, func() bool {
			select {
			case <-done: // what comes from here on comes from another process
				return strings.HasPrefix(s.text, word) && len(s.text) > from+20
			default:
				return false
			}
		})
		begin()
		<-done
		if err != nil {
			t.Fatal(err)
		}
	}
	read("first")
	s.connects = 0 // to front-1
	whileReading("first", func() { kill(t, one) })
	run(t, one, successor)
	kill(t, worker)
	read("second")
	// The model stands still meanwhile, so that it has not ended before.
	if err := w.Model.Node.Pause(); err != nil {
		t.Fatal(err)
	}
	s.connects = 1 // to front-2
	whileReading("second", func() {
		stop(t, two)
		if err := w.Model.Node.Resume(); err != nil {
			t.Error(err)
		}
	})
	if err := s.read(ctx, func() bool { return false }); err != nil { // until it is told that there is nothing more
		t.Fatal(err)
	}
	want := strings.Repeat("second ", 80)
	if len(s.replies) != 1 || strings.TrimSpace(s.replies[0]) != strings.TrimSpace(want) || s.resets != 1 || !strings.HasPrefix(want, strings.TrimSpace(s.text)) {
		t.Errorf("replies %q, %d resets, the tokens so far %q", s.replies, s.resets, s.text)
	}
	if n := len(w.Model.Calls()); n != 2 {
		t.Errorf("%d calls, want 2", n)
	}
}
