package sim

import "strings"

// What a rule does.
const (
	doAnswer             = "answer"
	doStatus             = "status"
	doResetBeforeHeaders = "reset_before_headers"
	doResetAfterHeaders  = "reset_after_headers"
	doCutStream          = "cut_stream"
	doCutEvent           = "cut_event"
	doEndEarly           = "end_early"
	doStall              = "stall"
	doHang               = "hang"
	doNoMarker           = "no_marker"
	doNoUsage            = "no_usage"
	doEarlyUsage         = "early_usage"
	doErrorFirst         = "error_before_output"
	doErrorLate          = "error_after_output"
	doFail               = "fail"
	doEmpty              = "empty"
	doGarbage            = "garbage"
	doBadText            = "bad_text"
	doRefuse             = "refuse"
	doToolCall           = "tool_call"
)

// strike says where in a stream a fault happens.
type strike int

const (
	strikeNever strike = iota
	strikeFirst        // before the first piece of text
	strikeHalf         // in the middle of the text
	strikeLate         // behind some text, if there is any
)

// action is a word of do.
type action struct {
	word   string
	free   bool   // nothing was generated and nothing is billed, unless the rule says so
	lost   bool   // what arrives is no whole answer, streamed or not
	said   bool   // what is generated is itself another: a repetition under the same key gets it, too
	strike strike // where in a stream it happens
}

// actions is the one table of them; doc.go says what each does.
var actions = []action{
	{word: doAnswer, said: true},
	{word: doStatus, free: true, lost: true},
	{word: doResetBeforeHeaders, lost: true},
	{word: doResetAfterHeaders, lost: true},
	{word: doCutStream, lost: true, strike: strikeHalf},
	{word: doCutEvent, lost: true, strike: strikeHalf},
	{word: doEndEarly, lost: true, strike: strikeHalf},
	{word: doStall, lost: true, strike: strikeHalf},
	{word: doHang, free: true, lost: true},
	{word: doNoMarker},
	{word: doNoUsage},
	{word: doEarlyUsage},
	{word: doErrorFirst, lost: true, strike: strikeFirst},
	{word: doErrorLate, lost: true, strike: strikeLate},
	{word: doFail, lost: true, said: true, strike: strikeLate},
	{word: doEmpty, said: true},
	{word: doGarbage, lost: true},
	{word: doBadText, said: true},
	{word: doRefuse, said: true},
	{word: doToolCall, said: true},
}

func actionOf(word string) (action, bool) {
	for _, a := range actions {
		if a.word == word {
			return a, true
		}
	}
	return action{}, false
}

// action is the rule's; rules are checked when they come.
func (r *rule) action() action {
	a, _ := actionOf(r.Do)
	return a
}

func actionWords() string {
	words := make([]string, len(actions))
	for i, a := range actions {
		words[i] = a.word
	}
	return strings.Join(words, ", ")
}

// at is the number of pieces of text that a stream of so many has before the fault; -1: it has none.
func (r *rule) at(pieces int) int {
	kind := r.action().strike
	switch {
	case kind == strikeNever:
		return -1
	case r.Chunks != nil:
		return min(*r.Chunks, pieces)
	case kind == strikeFirst:
		return 0
	case kind == strikeLate:
		return min(max(pieces/2, 1), pieces)
	}
	return pieces / 2
}

// errorEvent reports whether the rule's body is that of an error in a stream, and not of the whole answer.
func (r *rule) errorEvent() bool {
	return r.Do == doErrorFirst || r.Do == doErrorLate || r.Do == doFail
}
