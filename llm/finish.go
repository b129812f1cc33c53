package llm

import "strings"

// finishReasons says which ends of an answer are acceptable, in the words of all providers. What is not in it is an
// answer whose end is unknown.
var finishReasons = map[string]struct {
	finish   string // the word kept with an accepted answer; empty: not acceptable
	rejected string
}{
	"stop":                          {finish: "stop"},
	"end_turn":                      {finish: "stop"},
	"stop_sequence":                 {finish: "stop"},
	"length":                        {finish: "length"},
	"max_tokens":                    {finish: "length"},
	"model_context_window_exceeded": {finish: "length"},
	"content_filter":                {rejected: "the provider's filter cut the answer"},
	"refusal":                       {rejected: "the model refused to answer"},
	"tool_calls":                    {rejected: "the model asked for a tool that was not offered"},
	"function_call":                 {rejected: "the model asked for a tool that was not offered"},
	"tool_use":                      {rejected: "the model asked for a tool that was not offered"},
	"pause_turn":                    {rejected: "the model paused for a tool that was not offered"},
}

// Finish judges a complete answer by its finish reason and its text, as it came. It returns the candidate, or a *Failure:
// RejectedOutput for a refusal, a filter, a tool call or no text; Ambiguous when the reason is missing or unknown, since
// the answer may not be whole.
func Finish(reason, text string, report Report) (Answer, error) {
	row, known := finishReasons[reason]
	if !known {
		why := "the answer has no finish reason"
		if reason != "" {
			why = "the answer has an unknown finish reason"
			if l := label(reason); l != "" {
				why += " " + l
			}
		}
		return Answer{}, Unfit(why, report, nil)
	}
	text = CleanText(text)
	why := row.rejected
	if why == "" && strings.TrimSpace(text) == "" {
		why = "the answer is empty"
		if row.finish == "length" {
			why = "the limit was used up before any text"
		}
	}
	if why != "" {
		return Answer{}, &Failure{Class: RejectedOutput, Message: why, Status: 200, Report: report}
	}
	return Answer{Text: text, FinishReason: row.finish, Report: report}, nil
}
