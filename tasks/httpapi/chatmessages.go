package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
)

const maxChatMessages = 4096

// chatMessageFields are the members that a message of each role may have.
var chatMessageFields = map[string][]string{
	"system":    {"content", "name"},
	"developer": {"content", "name"},
	"user":      {"content", "name"},
	"assistant": {"content", "name", "refusal", "tool_calls", "annotations"},
	"tool":      {"content", "tool_call_id"},
}

// chatMessages checks the messages of a chat completion, which are sent on as they came, and returns the text of the last
// one of the user's.
func chatMessages(raw json.RawMessage) (content string, p *problem) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 || len(list) > maxChatMessages {
		return "", invalidField("messages", "is not a list of 1 to %d messages", maxChatMessages)
	}
	for i, one := range list {
		role, text, p := chatMessage(fmt.Sprintf("messages[%d]", i), one)
		if p != nil {
			return "", p
		}
		if role == "user" {
			content = text
		}
	}
	return content, nil
}

func chatMessage(field string, raw json.RawMessage) (role, text string, p *problem) {
	members, err := membersOf(raw)
	if err != nil {
		return "", "", invalidField(field, "is %s", err)
	}
	values := make(map[string]json.RawMessage, len(members))
	for _, m := range members {
		values[m.name] = m.value
	}
	if json.Unmarshal(values["role"], &role) != nil || chatMessageFields[role] == nil {
		return "", "", invalidField(field+".role", "is not one of system, developer, user, assistant, tool")
	}
	for _, m := range members {
		if m.name == "role" {
			continue
		}
		if p := checkMember(field, role, m); p != nil {
			return "", "", p
		}
	}
	if role == "tool" && isNull(values["tool_call_id"]) {
		return "", "", invalidField(field+".tool_call_id", "is missing")
	}
	content := values["content"]
	if isNull(content) {
		// What the assistant says besides its calls may be nothing.
		if role != "assistant" || isNull(values["tool_calls"]) && isNull(values["refusal"]) {
			return "", "", invalidField(field+".content", "is missing")
		}
		return role, "", nil
	}
	text, p = chatContent(field+".content", role, content)
	return role, text, p
}

func checkMember(field, role string, m member) *problem {
	known := false
	for _, name := range chatMessageFields[role] {
		known = known || name == m.name
	}
	at := field + "." + m.name
	switch {
	case isNull(m.value): // as SDKs write what is not there
		return nil
	case !known:
		return invalidField(clipField(at), "is not taken in a message of the role %s", role)
	}
	var s string
	switch m.name {
	case "name", "tool_call_id", "refusal":
		if json.Unmarshal(m.value, &s) != nil {
			return invalidField(at, "is not a text")
		}
	case "annotations":
		var list []json.RawMessage
		if json.Unmarshal(m.value, &list) != nil {
			return invalidField(at, "is not a list")
		}
	case "tool_calls":
		return checkCalls(at, m.value)
	}
	return nil
}

func checkCalls(field string, raw json.RawMessage) *problem {
	var calls []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function *struct {
			Name      string  `json:"name"`
			Arguments *string `json:"arguments"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &calls) != nil || len(calls) == 0 || len(calls) > 128 {
		return invalidField(field, "is not a list of 1 to 128 calls")
	}
	for i, c := range calls {
		if c.ID == "" || c.Type != "function" || c.Function == nil || c.Function.Name == "" || c.Function.Arguments == nil {
			return invalidField(fmt.Sprintf("%s[%d]", field, i), "is not the call of a function with id, name and arguments")
		}
	}
	return nil
}

// chatContent takes a text, or parts: texts of every role, images of the user's.
func chatContent(field, role string, raw json.RawMessage) (string, *problem) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		return "", invalidField(field, "is neither a text nor a list of parts")
	}
	var all strings.Builder
	for i, raw := range parts {
		part, p := chatPart(fmt.Sprintf("%s[%d]", field, i), role, raw)
		if p != nil {
			return "", p
		}
		all.WriteString(part)
	}
	return all.String(), nil
}

func chatPart(field, role string, raw json.RawMessage) (text string, p *problem) {
	var part struct {
		Type    string `json:"type"`
		Text    *string
		Refusal *string
		Image   *struct {
			URL    string `json:"url"`
			Detail string `json:"detail"`
		} `json:"image_url"`
	}
	if json.Unmarshal(raw, &part) != nil {
		return "", invalidField(field, "is not a part of a message")
	}
	members, err := membersOf(raw)
	if err != nil {
		return "", invalidField(field, "is %s", err)
	}
	for _, m := range members {
		if m.name != "type" && m.name != part.Type {
			return "", invalidField(clipField(field+"."+m.name), "is not taken in a part of this type")
		}
	}
	switch {
	case part.Type == "text" && part.Text != nil:
		return *part.Text, nil
	case part.Type == "refusal" && part.Refusal != nil && role == "assistant":
		return "", nil
	case part.Type == "image_url" && part.Image != nil && role == "user":
		// A provider reads nothing else, and what another scheme would make it read is not the caller's to say.
		if u := part.Image.URL; !strings.HasPrefix(u, "https://") && !strings.HasPrefix(u, "data:image/") {
			return "", invalidField(field+".image_url.url", "begins neither with https:// nor with data:image/")
		}
		return "", nil
	}
	return "", invalidField(field+".type", "is not a part that a message of the role %s may have here", role)
}

func isNull(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }
