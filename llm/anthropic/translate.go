package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/llm"
)

// translate makes a request of a chat request that is text alone. llm.ErrUntranslatable names what Messages has no
// equivalent for: what the system says in the middle of a conversation is such a thing.
func translate(out *messagesRequest, chat *llm.Chat) error {
	messages, err := chat.Texts()
	if err != nil {
		return err
	}
	var system []string
	for i, m := range messages {
		switch {
		case m.Role == "user" || m.Role == "assistant":
			if strings.TrimSpace(m.Text) == "" {
				return fmt.Errorf("%w: messages[%d] says nothing", llm.ErrUntranslatable, i)
			}
			out.Messages = append(out.Messages, message{m.Role, m.Text})
		case len(out.Messages) > 0:
			return fmt.Errorf("%w: messages[%d] is the system's, behind the beginning", llm.ErrUntranslatable, i)
		default:
			system = append(system, m.Text)
		}
	}
	if len(out.Messages) == 0 || out.Messages[0].Role != "user" {
		return fmt.Errorf("%w: its first message is not the user's", llm.ErrUntranslatable)
	}
	out.System = strings.Join(system, "\n\n")
	params, err := llm.Members(chat.Params)
	if err != nil {
		return fmt.Errorf("%w: its parameters cannot be read", llm.ErrUntranslatable)
	}
	limits := 0
	for _, p := range params {
		switch p.Name {
		case "temperature":
			err = json.Unmarshal(p.Value, &out.Temperature)
		case "top_p":
			err = json.Unmarshal(p.Value, &out.TopP)
		case "max_completion_tokens", "max_tokens":
			if limits++; limits > 1 {
				return fmt.Errorf("%w: it has two limits", llm.ErrUntranslatable)
			}
			err = json.Unmarshal(p.Value, &out.MaxTokens)
		case "stop":
			var one string
			if json.Unmarshal(p.Value, &one) == nil {
				out.Stop = []string{one}
				continue
			}
			err = json.Unmarshal(p.Value, &out.Stop)
		case "user":
			out.Metadata = new(metadata)
			err = json.Unmarshal(p.Value, &out.Metadata.UserID)
		default:
			return fmt.Errorf("%w: %s", llm.ErrUntranslatable, p.Name)
		}
		if err != nil {
			return fmt.Errorf("%w: %s cannot be read", llm.ErrUntranslatable, p.Name)
		}
	}
	return nil
}
