package llm

import (
	"encoding/json"
	"strings"
)

// ProviderError is what an error body says, as far as it can be read.
type ProviderError struct {
	Type    string
	Code    string // numbers as their digits
	Message string
	// Spoken is whether the body has the form of a provider's error, and not of something in front of it.
	Spoken bool
}

// DecodeError reads the error bodies that providers and their imitators send: an error object, an error string, numeric
// codes, the object itself at the top or in a list. Anything else (null, HTML, nothing) gives the zero value.
func DecodeError(body []byte) ProviderError {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var top struct {
		Error   json.RawMessage `json:"error"`
		Object  json.RawMessage `json:"object"`
		Type    json.RawMessage `json:"type"`
		Code    json.RawMessage `json:"code"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &top) != nil {
		return ProviderError{}
	}
	if len(top.Error) > 0 && string(top.Error) != "null" {
		out := decodeErrorMember(top.Error)
		out.Spoken = true
		if out.Message == "" {
			out.Message = scalar(top.Message)
		}
		return out
	}
	out := ProviderError{Type: scalar(top.Type), Code: scalar(top.Code), Message: scalar(top.Message)}
	out.Spoken = scalar(top.Object) == "error"
	if out.Message == "" {
		out.Message = scalar(top.Detail)
	}
	return out
}

func decodeErrorMember(raw json.RawMessage) ProviderError {
	var inner struct {
		Type    json.RawMessage `json:"type"`
		Code    json.RawMessage `json:"code"`
		Message json.RawMessage `json:"message"`
		Details json.RawMessage `json:"details"`
	}
	if json.Unmarshal(raw, &inner) != nil {
		return ProviderError{Message: scalar(raw)}
	}
	out := ProviderError{Type: scalar(inner.Type), Code: scalar(inner.Code), Message: scalar(inner.Message)}
	var details struct {
		Code json.RawMessage `json:"error_code"`
	}
	if out.Code == "" && json.Unmarshal(inner.Details, &details) == nil {
		out.Code = scalar(details.Code)
	}
	return out
}

// scalar returns a string's or a number's text, and nothing for anything else.
func scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}

// label returns a type or code that is fit for a log: a word, not a text.
func label(s string) string {
	if len(s) > 64 {
		return ""
	}
	ok := strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.')
	}) < 0
	if !ok {
		return ""
	}
	return s
}
