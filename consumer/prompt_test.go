package consumer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

func TestFitHistory(t *testing.T) {
	turn := func(content, reply string) tasks.Turn { return tasks.Turn{Content: content, Reply: reply} }
	forty := strings.Repeat("word", 40) // 40 tokens
	for name, tc := range map[string]struct {
		turns   []tasks.Turn
		tokens  int
		kept    int
		dropped int
	}{
		"none":                     {tokens: 100},
		"all":                      {turns: []tasks.Turn{turn(forty, forty), turn("a", "b")}, tokens: 98, kept: 2, dropped: 3},
		"the oldest goes":          {turns: []tasks.Turn{turn(forty, forty), turn("a", "b")}, tokens: 97, kept: 1, dropped: 4},
		"a turn is kept whole":     {turns: []tasks.Turn{turn("a", forty)}, tokens: 44, kept: 0, dropped: 4},
		"none behind one too long": {turns: []tasks.Turn{turn("a", "b"), turn(forty, "")}, tokens: 43, kept: 0, dropped: 5},
		"without a reply":          {turns: []tasks.Turn{turn(forty, "")}, tokens: 44, kept: 1, dropped: 3},
		"no ASCII":                 {turns: []tasks.Turn{turn(strings.Repeat("語", 40), "")}, tokens: 44, kept: 1, dropped: 3},
		"no ASCII, too long":       {turns: []tasks.Turn{turn(strings.Repeat("語", 41), "")}, tokens: 44, kept: 0, dropped: 4},
	} {
		t.Run(name, func(t *testing.T) {
			before := 3
			if len(tc.turns) == 0 {
				before = 0
			}
			got := fitHistory(tasks.History{Turns: tc.turns, Dropped: before}, tc.tokens)
			if len(got.Turns) != tc.kept || got.Dropped != tc.dropped {
				t.Errorf("kept %d and dropped %d, want %d and %d", len(got.Turns), got.Dropped, tc.kept, tc.dropped)
			}
		})
	}
}

func TestPrompt(t *testing.T) {
	for name, tc := range map[string]struct {
		request tasks.Request
		history tasks.History
		want    llm.Request
	}{
		"alone": {
			request: tasks.Request{Content: "hello", Model: "m"},
			want:    llm.Request{Content: "hello", Model: "m"},
		},
		"system and document": {
			request: tasks.Request{Content: "hello", System: "Be kind.", Document: tasks.Document{ID: "doc-7", Version: "3"}},
			want:    llm.Request{Content: "hello", System: "Be kind.\n\nDocument: doc-7, version 3"},
		},
		"document alone": {
			request: tasks.Request{Content: "hello", Document: tasks.Document{ID: "doc-7"}},
			want:    llm.Request{Content: "hello", System: "Document: doc-7"},
		},
		"conversation": {
			request: tasks.Request{Content: "and now?"},
			history: tasks.History{Turns: []tasks.Turn{{Content: "one", Reply: "uno"}, {Content: "unanswered"}, {Content: "two", Reply: "due"}}},
			want: llm.Request{Content: "and now?", History: []llm.Message{
				{Role: llm.RoleUser, Text: "one"}, {Role: llm.RoleAssistant, Text: "uno"}, {Role: llm.RoleUser, Text: "unanswered"},
				{Role: llm.RoleUser, Text: "two"}, {Role: llm.RoleAssistant, Text: "due"},
			}},
		},
		"as it came": {
			request: tasks.Request{Content: "hello", Model: "m", Document: tasks.Document{ID: "doc-7"}, Chat: &tasks.Chat{Messages: []byte(`[1]`), Params: []byte(`{}`)}},
			history: tasks.History{Turns: []tasks.Turn{{Content: "one", Reply: "uno"}}},
			want:    llm.Request{Content: "hello", Model: "m", Chat: &llm.Chat{Messages: []byte(`[1]`), Params: []byte(`{}`)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, prompt(tc.request, tc.history)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whether an earlier call asked the same is judged by the hash: every input has to change it.
func TestRequestHash(t *testing.T) {
	half, one, few := 0.5, 1.0, 7
	base := llm.Request{Model: "m", System: "s", Content: "c", History: []llm.Message{{Role: llm.RoleUser, Text: "h"}}, Temperature: &half, MaxOutputTokens: &few}
	seen := map[string]string{string(requestHash(&base)): "base"}
	for name, change := range map[string]func(*llm.Request){
		"model":                   func(r *llm.Request) { r.Model = "n" },
		"system":                  func(r *llm.Request) { r.System = "" },
		"content":                 func(r *llm.Request) { r.Content = "d" },
		"no history":              func(r *llm.Request) { r.History = nil },
		"role":                    func(r *llm.Request) { r.History = []llm.Message{{Role: llm.RoleAssistant, Text: "h"}} },
		"history":                 func(r *llm.Request) { r.History = []llm.Message{{Role: llm.RoleUser, Text: "i"}} },
		"temperature":             func(r *llm.Request) { r.Temperature = &one },
		"no temperature":          func(r *llm.Request) { r.Temperature = nil },
		"no limit":                func(r *llm.Request) { r.MaxOutputTokens = nil },
		"chat":                    func(r *llm.Request) { r.Chat = &llm.Chat{Messages: []byte("[1]")} },
		"another chat":            func(r *llm.Request) { r.Chat = &llm.Chat{Messages: []byte("[2]")} },
		"chat with parameters":    func(r *llm.Request) { r.Chat = &llm.Chat{Messages: []byte("[1]"), Params: []byte("{}")} },
		"history as the question": func(r *llm.Request) { r.History, r.Content = nil, "h" },
	} {
		r := base
		change(&r)
		h := string(requestHash(&r))
		if same, ok := seen[h]; ok {
			t.Errorf("%s hashes like %s", name, same)
		}
		seen[h] = name
	}
	r := base
	r.Op, r.TraceParent = "another attempt", "another trace"
	if string(requestHash(&r)) != string(requestHash(&base)) {
		t.Error("the attempt is not what is asked")
	}
}
