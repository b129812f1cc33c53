package anthropic

import (
	"errors"
	"strings"
	"testing"

	"github.com/fencepost/fencepost/llm"
)

func chat(messages, params string) llm.Request {
	r := llm.Request{Model: "m", Content: "not used", Chat: &llm.Chat{Messages: []byte(messages)}}
	if params != "" {
		r.Chat.Params = []byte(params)
	}
	return r
}

func TestChatOfTextIsTranslated(t *testing.T) {
	const messages = `[{"role":"system","content":"Be kind."},{"role":"developer","content":[{"type":"text","text":"Be brief."}]},` +
		`{"role":"user","content":"one"},{"role":"assistant","content":"two","refusal":null},{"role":"user","content":"three"}]`
	const turns = `"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}]`
	for params, want := range map[string]string{
		"": `{"model":"m","max_tokens":4096,"system":"Be kind.\n\nBe brief.",` + turns + `}`,
		`{"temperature":0,"top_p":0.5,"max_tokens":7,"stop":"x","user":"u"}`: `{"model":"m","max_tokens":7,"system":"Be kind.\n\nBe brief.",` + turns +
			`,"temperature":0,"top_p":0.5,"stop_sequences":["x"],"metadata":{"user_id":"u"}}`,
		`{"max_completion_tokens":9,"stop":["x","y"]}`: `{"model":"m","max_tokens":9,"system":"Be kind.\n\nBe brief.",` + turns + `,"stop_sequences":["x","y"]}`,
	} {
		if got, err := encode(chat(messages, params), false); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v\nwant %s", params, got, err, want)
		}
	}
}

// Nothing is left out: what Messages cannot say is refused by name.
func TestChatThatHasNoEquivalentIsRefused(t *testing.T) {
	const hi = `[{"role":"user","content":"hi"}]`
	for _, tc := range []struct{ messages, params, word string }{
		{hi, `{"tools":[{}]}`, "tools"}, {hi, `{"seed":1}`, "seed"}, {hi, `{"response_format":{"type":"json_object"}}`, "response_format"},
		{hi, `{"reasoning_effort":"low"}`, "reasoning_effort"}, {hi, `{"logit_bias":{}}`, "logit_bias"}, {hi, `{"max_tokens":1,"max_completion_tokens":1}`, "limits"},
		{hi, `{"max_tokens":"x"}`, "max_tokens"},
		{`[{"role":"assistant","content":"hi"}]`, "", "first message"},
		{`[{"role":"system","content":"hi"}]`, "", "first message"},
		{`[{"role":"user","content":"hi"},{"role":"system","content":"x"}]`, "", "messages[1]"},
		{`[{"role":"user","content":" "}]`, "", "messages[0]"},
		{`[{"role":"user","content":"hi","name":"n"}]`, "", "name"},
		{`[{"role":"tool","content":"hi"}]`, "", "role"},
		{`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}]`, "", "content"},
	} {
		if _, err := encode(chat(tc.messages, tc.params), false); !errors.Is(err, llm.ErrUntranslatable) || !strings.Contains(err.Error(), tc.word) {
			t.Errorf("%s %s: %v", tc.messages, tc.params, err)
		}
	}
}
