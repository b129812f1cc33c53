package httpapi

import (
	"encoding/json"
	"slices"
	"strings"
)

// chatPassed are the parameters of a chat completion that are sent on as they came, and what is wrong with a value ("":
// nothing). All of them are in the fingerprint.
var chatPassed = map[string]func(json.RawMessage) string{
	"temperature":           numberFrom(0, 2),
	"top_p":                 numberFrom(0, 1),
	"max_tokens":            wholeFrom(1, maxOutputTokens),
	"max_completion_tokens": wholeFrom(1, maxOutputTokens),
	"presence_penalty":      numberFrom(-2, 2),
	"frequency_penalty":     numberFrom(-2, 2),
	"seed":                  wholeFrom(-1<<53, 1<<53),
	"stop":                  checkStop,
	"logit_bias":            checkBias,
	"tools":                 checkTools,
	"tool_choice":           checkToolChoice,
	"parallel_tool_calls":   checkBool,
	"response_format":       checkResponseFormat,
	"reasoning_effort":      checkWord,
	"verbosity":             checkWord,
	"user":                  checkShort,
	"safety_identifier":     checkShort,
	"prompt_cache_key":      checkShort,
	"service_tier":          oneOf("auto", "default", "flex"), // others have rates that no reservation counts on
}

// chatNeutral are parameters that are taken only with a value that asks for nothing, which is then left out.
var chatNeutral = map[string]struct{ value, why string }{
	"n":                  {`1`, "can only be 1: a task has one reply"},
	"store":              {`false`, "cannot be true: the reply is kept here, and the provider's store is the server's to use"},
	"background":         {`false`, "cannot be true: the call waits for its task, and a repeat with the same key finds it"},
	"logprobs":           {`false`, "cannot be true: the saved reply does not hold them"},
	"modalities":         {`["text"]`, `can only be ["text"]`},
	"functions":          {`[]`, "is not taken: use tools"},
	"function_call":      {`null`, "is not taken: use tool_choice"},
	"top_logprobs":       {`null`, "is not taken: the saved reply does not hold them"},
	"audio":              {`null`, "is not taken: a reply is text"},
	"prediction":         {`null`, "is not taken"},
	"web_search_options": {`null`, "is not taken: what a search costs is not reported"},
}

func numberFrom(least, most float64) func(json.RawMessage) string {
	return func(raw json.RawMessage) string {
		var n float64
		if json.Unmarshal(raw, &n) != nil || !(n >= least && n <= most) {
			return "is not a number from " + plain(least) + " to " + plain(most)
		}
		return ""
	}
}

func wholeFrom(least, most int) func(json.RawMessage) string {
	return func(raw json.RawMessage) string {
		var n whole
		if json.Unmarshal(raw, &n) != nil || int(n) < least || int(n) > most {
			return "is not a whole number from " + plain(float64(least)) + " to " + plain(float64(most))
		}
		return ""
	}
}

// plain is a number for a person.
func plain(n float64) string {
	b, _ := json.Marshal(n) // a finite number has a JSON form
	return string(b)
}

func oneOf(words ...string) func(json.RawMessage) string {
	return func(raw json.RawMessage) string {
		var s string
		if json.Unmarshal(raw, &s) != nil || !slices.Contains(words, s) {
			return "is not one of " + strings.Join(words, ", ")
		}
		return ""
	}
}

func checkBool(raw json.RawMessage) string {
	var b bool
	if json.Unmarshal(raw, &b) != nil {
		return "is neither true nor false"
	}
	return ""
}

// checkWord takes values that grow with the models.
func checkWord(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || s == "" || len(s) > 32 {
		return "is not a word"
	}
	return ""
}

func checkShort(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || len(s) > maxMetadataValue {
		return "is not a text of at most 512 bytes"
	}
	return ""
}

func checkStop(raw json.RawMessage) string {
	var one string
	var several []*string // a null would be read as an empty text
	if json.Unmarshal(raw, &one) != nil && (json.Unmarshal(raw, &several) != nil || len(several) > 4 || slices.Contains(several, nil)) {
		return "is neither a text nor a list of at most 4"
	}
	return ""
}

func checkBias(raw json.RawMessage) string {
	var bias map[string]*float64
	if json.Unmarshal(raw, &bias) != nil || len(bias) > 1024 {
		return "is not an object of at most 1024 numbers"
	}
	for _, b := range bias {
		if b == nil || *b < -100 || *b > 100 {
			return "has a number that is not from -100 to 100"
		}
	}
	return ""
}

func checkTools(raw json.RawMessage) string {
	var tools []struct {
		Type     string `json:"type"`
		Function *struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &tools) != nil || len(tools) == 0 || len(tools) > 128 {
		return "is not a list of 1 to 128 tools"
	}
	for _, t := range tools {
		if t.Type != "function" || t.Function == nil || t.Function.Name == "" {
			return "has a tool that is not a function with a name"
		}
	}
	return ""
}

func checkToolChoice(raw json.RawMessage) string {
	var choice struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if oneOf("none", "auto", "required")(raw) == "" || json.Unmarshal(raw, &choice) == nil && choice.Type == "function" && choice.Function.Name != "" {
		return ""
	}
	return "is not none, auto, required or a function's name"
}

func checkResponseFormat(raw json.RawMessage) string {
	var format struct {
		Type   string `json:"type"`
		Schema struct {
			Name string `json:"name"`
		} `json:"json_schema"`
	}
	if json.Unmarshal(raw, &format) != nil {
		return "is not an object"
	}
	switch format.Type {
	case "text", "json_object":
		return ""
	case "json_schema":
		if format.Schema.Name == "" {
			return "has no json_schema with a name"
		}
		return ""
	}
	return "has a type that is not text, json_object or json_schema"
}
