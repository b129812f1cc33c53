package storetest

import (
	"encoding/json"
	"strings"

	"github.com/fencepost/fencepost/tasks"
)

// oddMessages and oddParams are JSON whose bytes a store must not touch: escapes, number forms, order of keys, doubled
// keys, white space.
const (
	oddMessages = "[ {\"role\":\"user\",\"content\":\"<a> & \\u0000 \\ud800 é\"},\n\t{\"z\":1,\"a\":2,\"a\":3} ]"
	oddParams   = `{"temperature":1.0,"top_p":1e0,"seed":12345678901234567890123, "logit_bias":{"b":-0,"a":0.10}}`
)

func chatOf(messages, params string) *tasks.Chat {
	return &tasks.Chat{Messages: json.RawMessage(messages), Params: json.RawMessage(params)}
}

func (k *kit) wantChat(got, want *tasks.Chat) {
	k.Helper()
	switch {
	case got == nil || want == nil:
		if got != want {
			k.Fatalf("chat %+v, want %+v", got, want)
		}
	case string(got.Messages) != string(want.Messages) || string(got.Params) != string(want.Params):
		k.Fatalf("chat\n%s\n%s, want\n%s\n%s", got.Messages, got.Params, want.Messages, want.Params)
	}
}

var chatTests = []test{
	{"a_chat_request_is_sent_on_byte_for_byte_on_each_attempt", func(k *kit) {
		items := []tasks.Submission{
			submission(func(s *tasks.Submission) { s.Request.Chat = chatOf(oddMessages, oddParams) }),
			submission(func(s *tasks.Submission) { s.Request.Chat = chatOf("[]", "") }),
			submission(),
		}
		for _, out := range k.submitAll(items...) {
			if out.Err != nil {
				k.Fatalf("submit: %v", out.Err)
			}
		}
		for range 2 {
			for i, c := range k.claimAll(claimer(), refs(items)...) {
				if c.Work == nil {
					k.Fatalf("claim: %+v", c)
				}
				k.wantChat(c.Work.Request.Chat, items[i].Request.Chat)
				k.settle(retry(*c.Work, 0), tasks.VerdictAccepted, tasks.StatusQueued)
			}
		}
	}},
	{"a_chat_request_is_the_stores_own", func(k *kit) {
		s := submission(func(s *tasks.Submission) { s.Request.Chat = chatOf(`["a"]`, `{"b":1}`) })
		k.submitAll(s)
		copy(s.Request.Chat.Messages, `["x"]`)
		w := k.take(s)
		k.wantChat(w.Request.Chat, chatOf(`["a"]`, `{"b":1}`))
		copy(w.Request.Chat.Messages, `["x"]`)
		k.settle(retry(w, 0), tasks.VerdictAccepted, tasks.StatusQueued)
		k.wantChat(k.take(s).Request.Chat, chatOf(`["a"]`, `{"b":1}`))
	}},
	{"a_chat_request_with_invalid_text_is_cleaned", func(k *kit) {
		s, w := k.started(func(s *tasks.Submission) { s.Request.Chat = chatOf("[\"\x80\"]", "{\"\xe2\x82\":1}") })
		k.wantChat(w.Request.Chat, chatOf("[\"\uFFFD\"]", "{\"\uFFFD\":1}"))
		k.settle(complete(w, "x"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "x")
	}},
	{"I1_the_message_of_a_reply_is_kept_byte_for_byte", func(k *kit) {
		const message = `{"role":"assistant","content":null, "tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"n\": 1.0, \"s\": \"\\u0000<\"}"}}]}`
		s, w := k.started()
		c := complete(w, "")
		c.Candidate.Message = message
		k.settle(c, tasks.VerdictAccepted, tasks.StatusCompleted)
		plain, w := k.started()
		k.settle(complete(w, "x"), tasks.VerdictAccepted, tasks.StatusCompleted)
		if got, none := k.read(s).Reply.Message, k.read(plain).Reply.Message; got != message || none != "" {
			k.Fatalf("messages %q and %q, want %q and none", got, none, message)
		}
		m := k.conversation(workspace, "c")
		if got, none := m[0].Replies[0].Message, m[1].Replies[0].Message; got != message || none != "" {
			k.Fatalf("the conversation shows %q and %q", got, none)
		}
	}},
	{"poison_message_of_a_reply_fails_alone", func(k *kit) {
		for name, message := range map[string]string{
			"cut": `{"a":`, "no object": `[]`, "text": `hello`, "a NUL": "{\"a\":\"\x00\"}", "white space": " ",
			"too much": `{"a":"` + strings.Repeat("x", tasks.MaxReplyText) + `"}`,
		} {
			s, w := k.started()
			good, other := k.started()
			bad := complete(w, "x")
			bad.Candidate.Message = message
			out := k.settleAll(bad, complete(other, "good"))
			if out[0].Verdict != tasks.VerdictInvalid || out[0].Err == nil || out[0].Status != tasks.StatusRunning || out[1].Verdict != tasks.VerdictAccepted {
				k.Fatalf("%s: %+v", name, out)
			}
			k.wantReply(good, "good")
			k.settle(fail(w), tasks.VerdictAccepted, tasks.StatusFailed)
			if k.read(s).Reply != nil {
				k.Fatalf("%s: a reply was saved", name)
			}
		}
	}},
}
