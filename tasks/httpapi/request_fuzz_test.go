package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fencepost/fencepost/tasks"
	"github.com/fencepost/fencepost/tasks/memory"
)

// Whatever a caller sends, with a good API key: no answer says that something went wrong here, and what comes back of the
// request is safe to write.
func FuzzRequest(f *testing.F) {
	const chat = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	for _, s := range [][6]string{
		{"POST", messages, "", "k", "application/json", `{"content":"hi"}`},
		{"POST", "/v1/chat/completions", "", "k", "application/json", chat},
		{"POST", "/v1/chat/completions", "", `"k"`, "application/json; charset=utf-8", strings.Replace(chat, "{", `{"stream":true,`, 1)},
		{"POST", "/v1/tasks/0197a0b0-0000-7000-8000-000000000000/regenerate", "", "k", "application/json", `{"temperature":1e0}`},
		{"POST", "/v1/tasks/x/cancel", "", "", "", ""},
		{"GET", "/v1/tasks", "status=failed&limit=3&after=0197a0b0-0000-7000-8000-000000000000", "", "", ""},
		{"GET", "/v1/tasks/0197a0b0-0000-7000-8000-000000000000/events", "last_event_id=1-2-3", "", "", ""},
		{"GET", "/v1/tasks/0197a0b0-0000-7000-8000-000000000000", "wait=1ms", "", "", ""},
		{"GET", "/v1/spend", "by=day&from=2026-01-01", "", "", ""},
		{"PATCH", "/v1/%2e%2e/tasks", "%", "\x00", "text/plain", "\xff"},
	} {
		f.Add(s[0], s[1], s[2], s[3], s[4], s[5])
	}
	store := memory.New(memory.Config{})
	server, err := New(Config{Store: store, Keys: store, Bindings: store, Defaults: Defaults{Model: "m"}, Logger: slog.New(slog.DiscardHandler),
		Limits: Limits{MaxChatWait: time.Millisecond}})
	if err != nil {
		f.Fatal(err)
	}
	secret := tasks.NewKey()
	if _, err := store.CreateKey(f.Context(), "w1", "test", tasks.HashKey(secret)); err != nil {
		f.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Run(ctx) }()
	f.Cleanup(func() { stop(); <-ended })
	handler := server.Handler()
	f.Fuzz(func(t *testing.T, method, path, query, key, media, body string) {
		at, err := url.ParseRequestURI(path)
		if err != nil || at.Host != "" || method == "" {
			return // net/http does not let it in
		}
		at.RawQuery = query
		r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
		r.Method, r.URL, r.RequestURI = method, at, path
		// One value in each place that is read of the headers.
		r.Header = http.Header{"Authorization": {"Bearer " + secret}, "Content-Type": {media}, "Idempotency-Key": {key},
			"X-Request-Id": {key}, "Traceparent": {key}, "Last-Event-Id": {key}}
		if strings.Contains(key, ":") {
			r.Header[naturalHeader] = []string{key}
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= 500 || w.Code < 200 {
			t.Fatalf("%q %q ? %q, key %q, %q, %q: %d %s", method, path, query, key, media, body, w.Code, w.Body)
		}
		if !utf8.Valid(w.Body.Bytes()) {
			t.Fatalf("%q %q: the answer is not UTF-8: %q", method, path, w.Body)
		}
		for name, values := range w.Header() {
			for _, v := range values {
				if strings.ContainsAny(v, "\r\n\x00") {
					t.Fatalf("%s: %q", name, v)
				}
			}
		}
	})
}
