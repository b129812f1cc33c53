package anthropic

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost/llm"
)

type messagesRequest struct {
	Model       string    `json:"model"`
	MaxTokens   int       `json:"max_tokens"`
	System      string    `json:"system,omitempty"`
	Messages    []message `json:"messages"`
	Temperature *float64  `json:"temperature,omitempty"`
	Stream      bool      `json:"stream,omitempty"`

	// Of a chat request only.
	TopP     *float64  `json:"top_p,omitempty"`
	Stop     []string  `json:"stop_sequences,omitempty"`
	Metadata *metadata `json:"metadata,omitempty"`
}

type metadata struct {
	UserID string `json:"user_id"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func encode(req llm.Request, stream bool) ([]byte, error) {
	if req.Chat != nil {
		out := messagesRequest{Model: req.Model, MaxTokens: defaultMaxTokens, Stream: stream}
		if err := translate(&out, req.Chat); err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
	turns, err := turns(req)
	if err != nil {
		return nil, err
	}
	out := messagesRequest{
		Model: req.Model, MaxTokens: defaultMaxTokens, System: llm.CleanText(req.System), Temperature: req.Temperature, Stream: stream,
		Messages: turns,
	}
	if req.MaxOutputTokens != nil {
		out.MaxTokens = *req.MaxOutputTokens
	}
	return json.Marshal(out)
}

// turns are what was said before and the message to answer. The endpoint wants the first to be the user's, and each to say
// something; it joins neighbours of one role itself.
func turns(req llm.Request) ([]message, error) {
	out := make([]message, 0, len(req.History)+1)
	for _, m := range req.History {
		if m.Role != llm.RoleUser && m.Role != llm.RoleAssistant {
			return nil, errRole
		}
		text := llm.CleanText(m.Text)
		if strings.TrimSpace(text) == "" || m.Role == llm.RoleAssistant && len(out) == 0 {
			continue
		}
		out = append(out, message{string(m.Role), text})
	}
	return append(out, message{string(llm.RoleUser), llm.CleanText(req.Content)}), nil
}

var errRole = errors.New("anthropic: a message of the history is neither the user's nor the assistant's")

// messagesAnswer reads what must be right strictly, and what is only reported (id, model, usage) as raw text.
type messagesAnswer struct {
	Type       *string         `json:"type"`
	ID         json.RawMessage `json:"id"`
	Model      json.RawMessage `json:"model"`
	StopReason *string         `json:"stop_reason"`
	Usage      json.RawMessage `json:"usage"`
	Content    []block         `json:"content"`
}

type block struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
}

var errNotMessage = errors.New("anthropic: not a message")

// decodeMessage judges the body of a 2xx answer. hide are texts that must not appear in a failure's message.
func decodeMessage(resp llm.Response, wire llm.Wire, hide ...string) (llm.Answer, error) {
	report := llm.Report{WireRequests: wire.Requests, RequestID: llm.RequestID(resp.Header)}
	unfit := func(why string, err error) (llm.Answer, error) {
		f := llm.Unfit(why, report, err)
		f.Status = resp.Status
		return llm.Answer{}, f
	}
	var body *messagesAnswer
	err := json.Unmarshal(resp.Body, &body)
	if body != nil { // the error of a wrong type leaves the rest decoded
		var counts usage
		counts.add(body.Usage)
		report.Usage, report.Model = counts.total(), reported(body.Model)
		if report.RequestID == "" {
			report.RequestID = reported(body.ID)
		}
	}
	if said := llm.DecodeError(resp.Body); said.Spoken {
		return unfit("status "+strconv.Itoa(resp.Status)+" with an error: "+llm.Extract(said.Message, hide...), nil)
	}
	switch {
	case err != nil:
		return unfit("the answer is not a message", errNotMessage)
	case body == nil:
		return unfit("the answer is null", errNotMessage)
	case deref(body.Type) != "message":
		return unfit("the answer is not a message", errNotMessage)
	}
	var text strings.Builder
	for _, b := range body.Content {
		if b.Type == "text" {
			text.WriteString(deref(b.Text))
		}
	}
	return llm.Finish(deref(body.StopReason), text.String(), report)
}

// usage holds the counts said so far. In a stream they are cumulative, and a later one replaces an earlier.
type usage struct {
	input, output, cacheWrite, cacheRead *int64
	thinking                             int64 // the part of output that nobody sees
	tier                                 string
	long                                 bool // some of the cache was written to be kept for an hour
	bad                                  bool
}

// add takes the counts of one usage object; what is missing or null in it stays as it was.
func (u *usage) add(raw json.RawMessage) {
	var said *struct {
		Input      *int64 `json:"input_tokens"`
		Output     *int64 `json:"output_tokens"`
		CacheWrite *int64 `json:"cache_creation_input_tokens"`
		CacheRead  *int64 `json:"cache_read_input_tokens"`

		Tier  json.RawMessage `json:"service_tier"`
		Cache json.RawMessage `json:"cache_creation"`
		Parts json.RawMessage `json:"output_tokens_details"`
	}
	if len(raw) == 0 {
		return
	}
	if json.Unmarshal(raw, &said) != nil {
		u.bad = true
		return
	}
	if said == nil {
		return
	}
	if tier := llm.ServiceTier(said.Tier); tier != "" {
		u.tier = tier
	}
	var kept struct {
		Hour json.Number `json:"ephemeral_1h_input_tokens"`
	}
	if json.Unmarshal(said.Cache, &kept) == nil && kept.Hour != "" {
		u.long = kept.Hour != "0"
	}
	var parts struct {
		Thinking *int64 `json:"thinking_tokens"`
	}
	if json.Unmarshal(said.Parts, &parts) == nil && parts.Thinking != nil {
		u.thinking = max(*parts.Thinking, 0)
	}
	for _, c := range []struct {
		into **int64
		n    *int64
	}{{&u.input, said.Input}, {&u.output, said.Output}, {&u.cacheWrite, said.CacheWrite}, {&u.cacheRead, said.CacheRead}} {
		if c.n != nil {
			*c.into = c.n
			u.bad = u.bad || *c.n < 0
		}
	}
}

// total is what was billed, nil when a count is missing or is none. A cache that nothing is said of was not used.
// Input tokens are those outside the cache already.
func (u *usage) total() *llm.Usage {
	if u.bad || u.input == nil || u.output == nil {
		return nil
	}
	out := &llm.Usage{InputTokens: *u.input, OutputTokens: *u.output, ReasoningTokens: min(u.thinking, *u.output), Tier: u.tier}
	if u.long {
		out.Tier += llm.LongCache
	}
	if u.cacheRead != nil {
		out.CachedInputTokens = *u.cacheRead
	}
	if u.cacheWrite != nil {
		out.CacheWriteTokens = *u.cacheWrite
	}
	return out
}

// reported returns a short text of the server's, empty when it is none.
func reported(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || len(s) > 200 {
		return ""
	}
	return llm.CleanText(s)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
