package openai

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/fencepost/fencepost/llm"
)

var (
	errNotResponse = errors.New("openai: not a response")
	errNoResponses = errors.New("openai: a server of this profile has no Responses API")
)

type responseRequest struct {
	Model           string            `json:"model"`
	Instructions    string            `json:"instructions,omitempty"`
	Input           []chatMessage     `json:"input"`
	Temperature     any               `json:"temperature,omitempty"`
	MaxOutputTokens any               `json:"max_output_tokens,omitempty"`
	Stream          bool              `json:"stream,omitempty"`
	Background      bool              `json:"background,omitempty"`
	Store           bool              `json:"store"` // always said: it is true when it is not, and keeps what nobody asks for
	Metadata        map[string]string `json:"metadata,omitempty"`

	// Of a chat request only.
	TopP      json.RawMessage `json:"top_p,omitempty"`
	User      json.RawMessage `json:"user,omitempty"`
	Safety    json.RawMessage `json:"safety_identifier,omitempty"`
	CacheKey  json.RawMessage `json:"prompt_cache_key,omitempty"`
	Tier      json.RawMessage `json:"service_tier,omitempty"`
	Reasoning *reasoning      `json:"reasoning,omitempty"`
	Text      *responseText   `json:"text,omitempty"`
}

type reasoning struct {
	Effort json.RawMessage `json:"effort"`
}

type responseText struct {
	Format    json.RawMessage `json:"format,omitempty"`
	Verbosity json.RawMessage `json:"verbosity,omitempty"`
}

func encodeResponse(req llm.Request, stream, background bool) ([]byte, error) {
	out := responseRequest{Model: req.Model, Stream: stream, Background: background, Store: background}
	if req.Chat != nil {
		if err := out.translate(req.Chat); err != nil {
			return nil, err
		}
	} else {
		input, err := turns(req)
		if err != nil {
			return nil, err
		}
		out.Input, out.Instructions = input, llm.CleanText(req.System)
		if t := req.Temperature; t != nil {
			out.Temperature = *t
		}
		if n := req.MaxOutputTokens; n != nil {
			out.MaxOutputTokens = *n
		}
	}
	if background && llm.CheckOp(req.Op) == nil {
		out.Metadata = map[string]string{opKey: req.Op} // for people: there is no list to find it in
	}
	return json.Marshal(out)
}

// response is read as strictly as chatAnswer is.
type response struct {
	ID         json.RawMessage `json:"id"`
	Model      json.RawMessage `json:"model"`
	Status     *string         `json:"status"`
	Error      json.RawMessage `json:"error"`
	Incomplete *struct {
		Reason *string `json:"reason"`
	} `json:"incomplete_details"`
	Output []struct {
		Type    string `json:"type"`
		Content []struct {
			Type    string  `json:"type"`
			Text    *string `json:"text"`
			Refusal *string `json:"refusal"`
		} `json:"content"`
	} `json:"output"`
	Usage json.RawMessage `json:"usage"`
	Tier  json.RawMessage `json:"service_tier"`
}

// id is what the response can be looked up by, empty when it cannot.
func (r *response) id() string {
	id := reported(r.ID)
	fit := id != "" && id[0] != '.' && strings.IndexFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.:", r))
	}) < 0
	if !fit {
		return "" // it would become part of a URL
	}
	return id
}

// running reports whether the response may still come to an end.
func (r *response) running() bool {
	return deref(r.Status) == "queued" || deref(r.Status) == "in_progress"
}

// decodeResponse judges a body that should be a response. The response is nil when it is none.
func decodeResponse(body []byte, status int, report llm.Report, hide ...string) (*response, llm.Answer, error) {
	var r *response
	err := json.Unmarshal(body, &r)
	if err != nil || r == nil || r.Status == nil {
		if r != nil { // what could be read of it is still reported
			report = r.report(report)
		}
		if llm.DecodeError(body).Spoken {
			return nil, llm.Answer{}, llm.RefusedInStream(body, status, report.Usage != nil, report, hide...)
		}
		why := "the answer is not a response"
		if err == nil && r == nil {
			why = "the answer is null"
		}
		return nil, llm.Answer{}, unfit(why, status, report)
	}
	answer, judged := r.judge(status, report, hide...)
	return r, answer, judged
}

func unfit(why string, status int, report llm.Report) *llm.Failure {
	f := llm.Unfit(why, report, errNotResponse)
	f.Status = status
	return f
}

// report adds what the response says of itself.
func (r *response) report(report llm.Report) llm.Report {
	report.Model, report.Usage = reported(r.Model), decodeResponseUsage(r.Usage, r.Tier)
	if report.RequestID == "" {
		report.RequestID = reported(r.ID)
	}
	return report
}

// judge says what a response came to.
func (r *response) judge(status int, report llm.Report, hide ...string) (llm.Answer, error) {
	report = r.report(report)
	reason, text := "", ""
	switch state := deref(r.Status); state {
	case "failed":
		return llm.Answer{}, r.failure(status, report, hide...)
	case "completed":
		if said(r.Error) {
			return llm.Answer{}, llm.RefusedInStream(wrapped(r.Error), status, true, report, hide...)
		}
		reason = "stop"
	case "incomplete":
		if r.Incomplete != nil {
			reason = deref(r.Incomplete.Reason)
		}
		if reason == "max_output_tokens" {
			reason = "length"
		}
	case "cancelled":
		return llm.Answer{}, unfit("the response was cancelled at the provider", status, report)
	case "queued", "in_progress":
		return llm.Answer{}, unfit("the response is not finished", status, report)
	default:
		return llm.Answer{}, unfit("the response has an unknown status", status, report)
	}
	refused := false
	for _, item := range r.Output {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				switch part.Type {
				case "output_text":
					text += deref(part.Text)
				case "refusal":
					refused = true
				}
			}
		case "reasoning":
		default: // no tools were offered
			reason = "tool_calls"
		}
	}
	if refused && (reason == "stop" || reason == "length") {
		reason = "refusal"
	}
	return llm.Finish(reason, text, report)
}

// The errors of failed responses that the same request would come to again: those of its words, and those of a policy, for
// which the model may have been paid.
var (
	badRequests = []string{"invalid_prompt", "data_residency_mismatch"}
	policies    = []string{"bio_policy", "misalignment_policy_violation", "cyber_policy", "image_content_policy_violation"}
)

// failure classifies a failed response: its code, and the texts by which a quota is told that comes under another one.
func (r *response) failure(status int, report llm.Report, hide ...string) *llm.Failure {
	output := len(r.Output) > 0 || report.Usage != nil && report.Usage.OutputTokens > 0
	what := llm.DecodeError(wrapped(r.Error))
	f := llm.RefusedInStream(wrapped(r.Error), status, output, report, hide...)
	switch {
	case strings.Contains(strings.ToLower(what.Message), "exceeded your current quota"):
		f.Class = llm.Quota
	case f.Class != llm.Ambiguous:
	case slices.Contains(policies, what.Code):
		f.Class = llm.RejectedOutput
	case slices.Contains(badRequests, what.Code), strings.Contains(what.Code, "image"):
		f.Class = llm.Permanent
	}
	f.Message = "the response failed: " + f.Message
	return f
}
