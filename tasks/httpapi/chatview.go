package httpapi

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// completionID is the same for every answer to a key.
func completionID(task uuid.UUID) string { return "chatcmpl-" + task.String() }

type completionView struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []choiceView `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

type choiceView struct {
	Index        int             `json:"index"`
	Message      json.RawMessage `json:"message"`
	LogProbs     *struct{}       `json:"logprobs"`
	FinishReason string          `json:"finish_reason"`
}

type assistantView struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"`
}

// chatUsage counts tokens as OpenAI does: cached ones are a part of the prompt's, reasoning is a part of the completion's.
type chatUsage struct {
	Prompt        int64 `json:"prompt_tokens"`
	Completion    int64 `json:"completion_tokens"`
	Total         int64 `json:"total_tokens"`
	PromptDetails struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func viewCompletion(t tasks.Task, usage *chatUsage) completionView {
	r := t.Reply
	message := json.RawMessage(r.Message)
	if r.Message == "" {
		message, _ = json.Marshal(assistantView{Role: "assistant", Content: r.Text}) // texts have a JSON form
	}
	return completionView{
		ID: completionID(t.ID), Object: "chat.completion", Created: r.SavedAt.Unix(), Model: r.Model, Usage: usage,
		Choices: []choiceView{{Message: message, FinishReason: r.FinishReason}},
	}
}

// usageOf finds the attempt whose answer is the reply. One that was found again was counted where it was made.
func usageOf(attempts []tasks.Attempt) *chatUsage {
	for _, a := range attempts {
		if a.Outcome != tasks.AttemptAccepted {
			continue
		}
		for _, made := range attempts {
			if made.Version == a.Recovered {
				a = made
				break
			}
		}
		if a.InputTokens == nil || a.OutputTokens == nil {
			return nil
		}
		u := &chatUsage{Prompt: *a.InputTokens, Completion: *a.OutputTokens, Total: *a.InputTokens + *a.OutputTokens}
		if n := a.CachedInputTokens; n != nil {
			u.PromptDetails.Cached = *n
		}
		if n := a.ReasoningTokens; n != nil {
			u.CompletionDetails.Reasoning = *n
		}
		return u
	}
	return nil
}

// chunkView is one event of a stream.
type chunkView struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Created int64           `json:"created"`
	Model   string          `json:"model"`
	Choices []chunkChoice   `json:"choices"`
	Usage   json.RawMessage `json:"usage,omitempty"`
}

type chunkChoice struct {
	Index        int       `json:"index"`
	Delta        deltaView `json:"delta"`
	LogProbs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

type deltaView struct {
	Role    string            `json:"role,omitempty"`
	Content *string           `json:"content,omitempty"`
	Calls   []json.RawMessage `json:"tool_calls,omitempty"`
}

// streamedCalls are the tool calls of a saved message as they are, numbered as a stream has them.
func streamedCalls(message string) (calls []json.RawMessage) {
	var m struct {
		Calls []json.RawMessage `json:"tool_calls"`
	}
	if message == "" || json.Unmarshal([]byte(message), &m) != nil {
		return nil
	}
	for i, c := range m.Calls {
		members, err := membersOf(c)
		if err != nil {
			return nil
		}
		call := fmt.Appendf(nil, `{"index":%d`, i)
		for _, m := range members {
			if m.name != "index" { // some servers say it themselves
				name, _ := json.Marshal(m.name) // a text has a JSON form
				call = append(append(append(append(call, ','), name...), ':'), m.value...)
			}
		}
		calls = append(calls, append(call, '}'))
	}
	return calls
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return strconv.Itoa(n) + " " + of + "s"
}
