package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// keyedPost sends a request under a key, over a connection of its own.
func keyedPost(t testing.TB, url, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("X-Once", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	if resp.Header.Get("Idempotency-Replayed") == "true" {
		return resp.StatusCode, "replay " + string(out)
	}
	return resp.StatusCode, string(out)
}

const keysOn = `{"idempotency_header":"X-Once"}`

// The same key and body get the same answer again, in every protocol, streamed or not, and generate nothing.
func TestReplay(t *testing.T) {
	_, url := newServer(t, Config{})
	set(t, url, keysOn)
	for i, p := range wires {
		for _, stream := range []bool{false, true} {
			request(t, "DELETE", url+"/sim/requests", "")
			key, body := fmt.Sprint(i, stream), p.body("hello", stream)
			status, first := keyedPost(t, url+p.path, key, body)
			for range 2 {
				if again, out := keyedPost(t, url+p.path, key, body); status != 200 || again != 200 || out != "replay "+first {
					t.Errorf("%s: %d %s\nwas %d %s", p.path, again, out, status, first)
				}
			}
			if status, out := keyedPost(t, url+p.path, key, p.body("other", stream)); status != 422 {
				t.Errorf("another body: %d %s", status, out)
			}
			if status, _ := keyedPost(t, url+p.path, key+"b", body); status != 200 {
				t.Errorf("another key: %d", status)
			}
			if n, kinds := total(t, url), strings.Join(seen(t, url), ", "); n.Requests != 2 || kinds != "replay 200, replay 200, conflict 422" {
				t.Errorf("%+v, %s", n, kinds)
			}
		}
	}
	// Without the setting, a key is nothing.
	set(t, url, `{}`)
	for range 2 {
		if _, out := keyedPost(t, url+wires[0].path, "k", wires[0].body("hello", false)); strings.HasPrefix(out, "replay") {
			t.Error(out)
		}
	}
}

// What was lost on its way the first time arrives the second time; what the model said is said again; a call that was
// refused is not remembered.
func TestWhatIsReplayed(t *testing.T) {
	_, url := newServer(t, Config{})
	set(t, url, keysOn)
	p := wires[0]
	for _, act := range actions {
		if act.word == doHang || act.word == doStall {
			continue
		}
		request(t, "DELETE", url+"/sim/requests", "")
		rules(t, url, `[{"times":1,"do":"`+act.word+`","text":"the first"},{"text":"the second"}]`)
		_, first := keyedPost(t, url+p.path, act.word, p.body("hello", false))
		status, out := keyedPost(t, url+p.path, act.word, p.body("hello", false))
		n := total(t, url).Requests
		switch {
		case act.word == doStatus:
			if n != 2 || status != 200 || !strings.Contains(out, "the second") {
				t.Errorf("%s: %d %s, %d calls", act.word, status, out, n)
			}
		case act.said:
			if n != 1 || status != 200 || out != "replay "+first {
				t.Errorf("%s: %d %s, %d calls", act.word, status, out, n)
			}
		default:
			if n != 1 || status != 200 || !strings.Contains(out, `"content":"the first"`) || !strings.HasPrefix(out, "replay") {
				t.Errorf("%s: %d %s, %d calls", act.word, status, out, n)
			}
		}
	}
}

// While the first request runs, a repetition is told so; many at once are one generation; and a key is forgotten in time.
func TestKeysInProgressAndExpired(t *testing.T) {
	_, url := newServer(t, Config{})
	set(t, url, `{"idempotency_header":"X-Once","idempotency_in_progress":425,"idempotency_conflict":400}`)
	p := wires[0]
	rules(t, url, `[{"match":{"contains":"slow"},"latency":"1h"}]`)
	post := func(content string) (int, string) {
		return keyedPost(t, url+p.path, "k "+content, p.body(content, false))
	}

	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := map[int]int{}
	for range 20 {
		wg.Go(func() {
			status, _ := post("quick")
			mu.Lock()
			defer mu.Unlock()
			codes[status]++
		})
	}
	wg.Wait()
	if n := total(t, url).Requests; n != 1 || codes[200] == 0 || codes[200]+codes[425] != 20 {
		t.Errorf("%d calls, %v", n, codes)
	}

	slow, err := http.NewRequest("POST", url+p.path, strings.NewReader(p.body("slow", false)))
	if err != nil {
		t.Fatal(err)
	}
	slow.Header.Set("X-Once", "k slow")
	ctx, leave := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.DefaultClient.Do(slow.WithContext(ctx)); err == nil {
			resp.Body.Close()
		}
	}()
	until(t, func() bool { return total(t, url).Requests == 2 })
	if status, out := post("slow"); status != 425 || !strings.Contains(out, "still running") {
		t.Errorf("%d %s", status, out)
	}
	if status, _ := keyedPost(t, url+p.path, "k slow", p.body("other", false)); status != 400 {
		t.Errorf("%d", status)
	}

	set(t, url, `{"idempotency_header":"X-Once","idempotency_retention":"1ns"}`)
	if status, out := post("quick"); status != 200 || strings.HasPrefix(out, "replay") || total(t, url).Requests != 3 {
		t.Errorf("%d %s", status, out)
	}
	if status, _ := post("slow"); status != 409 {
		t.Errorf("a request that runs is forgotten: %d", status)
	}
	leave()
	<-done
	until(t, func() bool { return total(t, url).InFlight == 0 })
	if status, _ := post("slow"); status != 409 {
		t.Errorf("it runs on without its client, until its time: %d", status)
	}
}

// A response in the background is known by its key from the moment it is queued.
func TestKeysInTheBackground(t *testing.T) {
	_, url := newServer(t, Config{})
	set(t, url, keysOn)
	rules(t, url, `[{"do":"hang"}]`)
	status, first := keyedPost(t, url+"/v1/responses", "k", inBackground)
	again, out := keyedPost(t, url+"/v1/responses", "k", inBackground)
	if status != 200 || again != 200 || !bytes.Contains([]byte(out), []byte(`"id":"resp_sim_1"`)) || !strings.Contains(out, "in_progress") || total(t, url).Requests != 1 {
		t.Errorf("%d %s\n%d %s", status, first, again, out)
	}
}

func TestKeysAreBounded(t *testing.T) {
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	set := defaultSettings()
	set.IdempotencyHeader = "X-Once"
	claim := func(i int) string {
		req, err := http.NewRequest("POST", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Once", fmt.Sprint(i))
		_, known := s.claim(set, req, nil)
		return known
	}
	for i := range maxKeys + 10 {
		claim(i)
	}
	if len(s.keys.byKey) != maxKeys || len(s.keys.order) != maxKeys || claim(maxKeys) != lookupInProgress || claim(0) != "" {
		t.Errorf("%d keys", len(s.keys.byKey))
	}
}
