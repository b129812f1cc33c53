package openai

import (
	"encoding/json"
	"strings"
)

// maxCalls bounds the tool calls of one answer; their bytes are bounded with the whole answer's.
const maxCalls = 128

// toolCalls are the calls of an answer as they came, once each has what a caller needs. False: they cannot be read.
func toolCalls(raw json.RawMessage) (calls []json.RawMessage, ok bool) {
	if json.Unmarshal(raw, &calls) != nil || len(calls) > maxCalls {
		return nil, false
	}
	for _, c := range calls {
		var call struct {
			ID       *string `json:"id"`
			Function *struct {
				Name      *string `json:"name"`
				Arguments *string `json:"arguments"`
			} `json:"function"`
		}
		if json.Unmarshal(c, &call) != nil || call.ID == nil || call.Function == nil || deref(call.Function.Name) == "" || call.Function.Arguments == nil {
			return nil, false
		}
	}
	return calls, true
}

// callAssembly puts the tool calls of a stream together, by their index.
type callAssembly []*streamedCall

type streamedCall struct {
	id, kind, name string
	arguments      strings.Builder
	others         map[string]json.RawMessage // what some servers want back with the call
}

// add takes the calls of one chunk. False: they make no answer.
func (a *callAssembly) add(raw json.RawMessage) bool {
	var deltas []map[string]json.RawMessage
	if json.Unmarshal(raw, &deltas) != nil {
		return false
	}
	for _, d := range deltas {
		if !a.delta(d) {
			return false
		}
	}
	return true
}

func (a *callAssembly) delta(d map[string]json.RawMessage) bool {
	var id string
	if said(d["id"]) && json.Unmarshal(d["id"], &id) != nil {
		return false
	}
	// Without an index, a new id begins a new call.
	index := max(len(*a)-1, 0)
	if len(*a) > 0 && id != "" && id != (*a)[index].id {
		index++
	}
	if said(d["index"]) && json.Unmarshal(d["index"], &index) != nil || index < 0 || index >= maxCalls || index > len(*a) {
		return false
	}
	if index == len(*a) {
		*a = append(*a, &streamedCall{kind: "function", others: make(map[string]json.RawMessage)})
	}
	call := (*a)[index]
	for name, value := range d {
		if !said(value) {
			continue
		}
		switch name {
		case "index":
		case "id":
			// Some servers repeat it with every piece; another one would be another call.
			if call.id != "" && id != "" && id != call.id {
				return false
			}
			if id != "" {
				call.id = id
			}
		case "type":
			if json.Unmarshal(value, &call.kind) != nil {
				return false
			}
		case "function":
			var f struct {
				Name      *string `json:"name"`
				Arguments *string `json:"arguments"`
			}
			if json.Unmarshal(value, &f) != nil {
				return false
			}
			if name := deref(f.Name); name != "" {
				call.name = name
			}
			call.arguments.WriteString(deref(f.Arguments))
		default:
			call.others[name] = value
		}
	}
	return true
}

// whole are the calls, in the form that an answer has that is not streamed. False: one is not whole.
func (a callAssembly) whole() (calls []json.RawMessage, ok bool) {
	for _, c := range a {
		if c.id == "" || c.name == "" {
			return nil, false
		}
		out := map[string]any{"id": c.id, "type": c.kind, "function": map[string]string{"name": c.name, "arguments": c.arguments.String()}}
		for name, value := range c.others {
			out[name] = value
		}
		raw, err := json.Marshal(out)
		if err != nil {
			return nil, false
		}
		calls = append(calls, raw)
	}
	return calls, true
}
