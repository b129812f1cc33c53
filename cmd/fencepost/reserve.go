package main

import (
	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// unlimitedOutput is what is reserved for the output of a message that sets no max_output_tokens. A longer answer costs more
// than was reserved, and is charged in full.
const unlimitedOutput = 4096

// reserve is what one call for a message can cost at most, for the budgets of workspaces: with as much of the conversation
// as may be sent along, all of it at the dearest rate.
func (l *llmSettings) reserve(prices *llm.Prices, history int) func(tasks.Request) *int64 {
	provider := l.ledgerName()
	return func(r tasks.Request) *int64 {
		input := llm.EstimateTokens(r.System) + llm.EstimateTokens(r.Content) + llm.EstimateTokens(r.Document.ID+r.Document.Version) + history
		if c := r.Chat; c != nil { // all that is sent is in it
			input = llm.EstimateTokens(string(c.Messages)) + llm.EstimateTokens(string(c.Params))
		}
		output := unlimitedOutput
		if r.MaxOutputTokens != nil {
			output = *r.MaxOutputTokens
		}
		pico, ok := prices.Most(provider, r.Model, int64(input), int64(output))
		if !ok {
			return nil
		}
		return &pico
	}
}
