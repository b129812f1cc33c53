package openai

import (
	"net/http"
	"testing"

	"github.com/fencepost/fencepost/llm"
)

// The tier a call was billed at is reported with its usage, however the server answers.
func TestServiceTier(t *testing.T) {
	const counts, details = `"usage":{"prompt_tokens":5,"completion_tokens":7`, `"input_tokens":5,"output_tokens":7`
	for tier, want := range map[string]string{`"default"`: "default", `"batch"`: "batch", `"flex"`: "flex", `null`: "", `3`: "unreadable", `"a b"`: "unreadable", `""`: ""} {
		body := `{"service_tier":` + tier + `,"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],` + counts + `}}`
		a, err := decodeAnswer(llm.Response{Status: 200, Header: http.Header{}, Body: []byte(body)}, llm.Wire{}, false)
		if err != nil || a.Usage.Tier != want {
			t.Errorf("chat, %s: %+v, %v", tier, a.Usage, err)
		}

		body = `{"id":"resp_1","status":"completed","service_tier":` + tier + `,"output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{` + details + `}}`
		_, a, err = decodeResponse([]byte(body), 200, llm.Report{})
		if err != nil || a.Usage.Tier != want {
			t.Errorf("response, %s: %+v, %v", tier, a.Usage, err)
		}

		// Said in every chunk, or not in the one with the counts.
		for _, last := range []string{`,"service_tier":` + tier, ""} {
			var parts assembly
			for _, data := range []string{
				`{"service_tier":` + tier + `,"choices":[{"index":0,"delta":{"content":"hi"}}]}`,
				`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `{"choices":[]` + last + `,` + counts + `}}`, `[DONE]`,
			} {
				parts.take(llm.Event{Data: []byte(data)})
			}
			a, err = parts.answer(llm.Response{Status: 200, Header: http.Header{}}, llm.Wire{}, nil)
			if err != nil || a.Usage.Tier != want {
				t.Errorf("stream, %s: %+v, %v", tier, a.Usage, err)
			}
		}
	}
	for details, want := range map[string]string{
		`{"cache_write_tokens":3,"cache_write_tokens_details":{"ttl_30m":3}}`: "", `{"cache_write_tokens":3,"cache_write_tokens_details":{"ttl_12h":3}}`: llm.LongCache,
		`{"cache_write_tokens":3,"cache_write_tokens_details":null}`: "", `{"cache_write_tokens":3,"cache_write_tokens_details":[]}`: "",
	} {
		if u := decodeResponseUsage([]byte(`{"input_tokens":5,"output_tokens":7,"input_tokens_details":`+details+`}`), nil); u == nil || u.Tier != want {
			t.Errorf("%s: %+v", details, u)
		}
	}
}
