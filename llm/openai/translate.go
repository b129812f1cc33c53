package openai

import (
	"encoding/json"
	"fmt"

	"github.com/fencepost/fencepost/llm"
)

// translate fills in a chat request that is text alone. llm.ErrUntranslatable names what Responses has no equivalent for.
func (r *responseRequest) translate(chat *llm.Chat) error {
	messages, err := chat.Texts()
	if err != nil {
		return err
	}
	for _, m := range messages {
		r.Input = append(r.Input, chatMessage{m.Role, m.Text})
	}
	params, err := llm.Members(chat.Params)
	if err != nil {
		return fmt.Errorf("%w: its parameters cannot be read", llm.ErrUntranslatable)
	}
	for _, p := range params {
		switch p.Name {
		case "temperature":
			r.Temperature = p.Value
		case "max_completion_tokens", "max_tokens":
			if r.MaxOutputTokens != nil {
				return fmt.Errorf("%w: it has two limits", llm.ErrUntranslatable)
			}
			r.MaxOutputTokens = p.Value
		case "top_p":
			r.TopP = p.Value
		case "user":
			r.User = p.Value
		case "safety_identifier":
			r.Safety = p.Value
		case "prompt_cache_key":
			r.CacheKey = p.Value
		case "service_tier":
			r.Tier = p.Value
		case "reasoning_effort":
			r.Reasoning = &reasoning{Effort: p.Value}
		case "verbosity":
			r.text().Verbosity = p.Value
		case "response_format":
			if r.text().Format, err = textFormat(p.Value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: %s", llm.ErrUntranslatable, p.Name)
		}
	}
	return nil
}

func (r *responseRequest) text() *responseText {
	if r.Text == nil {
		r.Text = new(responseText)
	}
	return r.Text
}

// textFormat is a response_format as Responses spells it: a schema's members stand beside its type.
func textFormat(raw json.RawMessage) (json.RawMessage, error) {
	members, err := llm.Members(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: response_format", llm.ErrUntranslatable)
	}
	out := make(map[string]json.RawMessage)
	for _, m := range members {
		if m.Name != "json_schema" {
			out[m.Name] = m.Value
			continue
		}
		inner, err := llm.Members(m.Value)
		if err != nil {
			return nil, fmt.Errorf("%w: response_format.json_schema", llm.ErrUntranslatable)
		}
		for _, i := range inner {
			out[i.Name] = i.Value
		}
	}
	return json.Marshal(out)
}
