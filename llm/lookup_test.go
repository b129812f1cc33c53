package llm

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A question is one request, is never one for an answer, and follows no redirect.
func TestQuestionsAreCountedApart(t *testing.T) {
	for name, c := range map[string]struct {
		script func(conn net.Conn, n int64) bool
		fails  bool
	}{
		"answered": {func(conn net.Conn, _ int64) bool { say(conn, okAnswer); return false }, false},
		"redirected": {func(conn net.Conn, _ int64) bool {
			say(conn, "HTTP/1.1 307 X\r\nLocation: /v1/x\r\nContent-Length: 0\r\n\r\n")
			return false
		}, false},
		"dead": {func(conn net.Conn, _ int64) bool { return rst(conn) }, true},
	} {
		s := newWireServer(t, c.script)
		e, err := NewEndpoint(EndpointConfig{Adapter: "a", BaseURL: strings.TrimSuffix(s.url(), "/chat/completions"), BaseIsV1: true, Path: "/responses"})
		if err != nil {
			t.Fatal(err)
		}
		resp, f := e.Ask(context.Background(), Lookup{Method: http.MethodPost, Path: "/responses/x/cancel", Header: http.Header{"X": {"y"}}})
		if (f != nil) != c.fails || s.requests.Load() != 1 {
			t.Errorf("%s: %+v, %v, %d requests", name, resp, f, s.requests.Load())
		}
		if f != nil && (f.WireRequests != 0 || f.Lookups != 1 || f.Class != Ambiguous) {
			t.Errorf("%s: %+v", name, f)
		}
		if head := s.lastHead.Load(); head.URL.Path != "/v1/responses/x/cancel" || head.Header.Get("X") != "y" {
			t.Errorf("%s: asked %s", name, head.URL)
		}
	}
}
