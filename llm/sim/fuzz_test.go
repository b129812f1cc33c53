package sim

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func FuzzRules(f *testing.F) {
	for _, s := range []string{
		`[]`, `null`, `[null]`, `[{"match":{"contains":"x","model":"m","nth":2},"times":3,"latency":"1.5s","do":"status","status":503,"headers":{"A":"b"},"body":"x"}]`,
		`[{"body":{"a":[1]}}]`, `[{"text":"\ud800"}]`, `[{"latency":"1e9h"}]`, `[{"times":9223372036854775807}]`, `[{"do":"cut_stream","output_tokens":9223372036854775807}]`,
		`[{"do":"fail","body":{"code":"x"}}]`, `[{"do":"bad_text","line_bytes":99,"chunks":1}]`, `[{"do":"cut_event","chunks":2,"finish_reason":""}]`,
		`[{"do":"error_after_output","body":"x","input_tokens":3,"cached_tokens":2,"cache_write_tokens":9}]`, `[{"do":"tool_call"}]`, `[{"do":"refuse"}]`,
	} {
		f.Add([]byte(s), "a message")
	}
	f.Fuzz(func(t *testing.T, body []byte, content string) {
		list, err := parseRules(body)
		if err != nil {
			return
		}
		for _, r := range list {
			r.Latency = 0
			r.ChunkLatency, r.LineBytes = 0, min(r.LineBytes, 4096)
			if r.Do == doHang || r.Do == doStall {
				r.Do, r.Chunks = doEmpty, nil
			}
		}
		again, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseRules(again); err != nil {
			t.Fatalf("%s is not read again: %v", again, err)
		}
		s, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.script.set(list)
		for _, p := range wires {
			for _, stream := range []bool{false, true} {
				w := httptest.NewRecorder()
				func() {
					defer func() {
						if p := recover(); p != nil && p != http.ErrAbortHandler {
							panic(p)
						}
					}()
					s.ServeHTTP(w, httptest.NewRequest("POST", p.path, strings.NewReader(p.body(content, stream))))
				}()
			}
		}
		if got := s.ledger.total(); got.Requests != 6 || got.InFlight != 0 {
			t.Errorf("%+v", got)
		}
	})
}
