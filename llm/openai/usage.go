package openai

import (
	"encoding/json"

	"github.com/fencepost/fencepost/llm"
)

// tokens are the counts of one usage object, whatever its fields are called.
type tokens struct {
	in, out               *int64
	inDetails, outDetails json.RawMessage
	total                 json.RawMessage
	tier                  json.RawMessage
}

// decodeUsage returns what a chat completion says was billed, nil when it says nothing that can be read.
func decodeUsage(body []byte) *llm.Usage {
	var top struct {
		Usage struct {
			Prompt            *int64          `json:"prompt_tokens"`
			Completion        *int64          `json:"completion_tokens"`
			PromptDetails     json.RawMessage `json:"prompt_tokens_details"`
			CompletionDetails json.RawMessage `json:"completion_tokens_details"`
			Total             json.RawMessage `json:"total_tokens"`
		} `json:"usage"`
		Tier json.RawMessage `json:"service_tier"`
	}
	if json.Unmarshal(body, &top) != nil {
		return nil
	}
	u := top.Usage
	return tokens{u.Prompt, u.Completion, u.PromptDetails, u.CompletionDetails, u.Total, top.Tier}.usage()
}

// decodeResponseUsage is decodeUsage for the usage and service tier members of a response.
func decodeResponseUsage(raw, tier json.RawMessage) *llm.Usage {
	var u struct {
		Input         *int64          `json:"input_tokens"`
		Output        *int64          `json:"output_tokens"`
		InputDetails  json.RawMessage `json:"input_tokens_details"`
		OutputDetails json.RawMessage `json:"output_tokens_details"`
		Total         json.RawMessage `json:"total_tokens"`
	}
	if json.Unmarshal(raw, &u) != nil {
		return nil
	}
	return tokens{u.Input, u.Output, u.InputDetails, u.OutputDetails, u.Total, tier}.usage()
}

// usage is nil when a count is missing or negative. Details that cannot be read are left out: the two counts still stand,
// and price the call at the plain rates.
func (t tokens) usage() *llm.Usage {
	if t.in == nil || t.out == nil || *t.in < 0 || *t.out < 0 {
		return nil
	}
	u := &llm.Usage{InputTokens: *t.in, OutputTokens: *t.out}
	// Cached tokens are inside the input here. A server that reports more of them than input is not believed beyond that:
	// the kinds must add up to what it billed.
	u.CachedInputTokens = min(detail(t.inDetails, "cached_tokens"), u.InputTokens)
	u.InputTokens -= u.CachedInputTokens
	u.CacheWriteTokens = min(detail(t.inDetails, "cache_write_tokens"), u.InputTokens)
	u.InputTokens -= u.CacheWriteTokens
	u.Tier = llm.ServiceTier(t.tier)
	var writes struct {
		Kept json.RawMessage `json:"cache_write_tokens_details"`
	}
	if json.Unmarshal(t.inDetails, &writes) == nil && detail(writes.Kept, "ttl_12h") > 0 {
		u.Tier += llm.LongCache
	}
	reasoning := detail(t.outDetails, "reasoning_tokens")
	// Some servers count reasoning beside the output; the total tells.
	if total := count(t.total); reasoning > 0 && total > *t.in && total-*t.in-*t.out == reasoning {
		u.OutputTokens += reasoning
	}
	u.ReasoningTokens = min(reasoning, u.OutputTokens)
	return u
}

// detail is a count in an object of counts, 0 when it is not there.
func detail(raw json.RawMessage, name string) int64 {
	var counts map[string]json.RawMessage
	if json.Unmarshal(raw, &counts) != nil {
		return 0
	}
	return count(counts[name])
}

// count is a number of tokens, 0 when it is none.
func count(raw json.RawMessage) int64 {
	var n int64
	if json.Unmarshal(raw, &n) != nil {
		return 0
	}
	return max(n, 0)
}
