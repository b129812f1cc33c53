package sim

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/fencepost/fencepost/llm"
)

// echoBytes bounds how much of a message the answer repeats.
const echoBytes = 256

// reply is what the model says to a call.
type reply struct {
	text   string
	finish string  // stop or length
	word   *string // the rule's finish reason, sent instead; empty: none is sent

	input, cached, cacheWrite int64 // the latter two are parts of the first
	output, reasoning         int64 // the latter is part of the former

	noUsage    bool
	earlyUsage bool // of zeros, before the answer
	calls      []toolCall
	refused    bool // the text is a refusal
	tool       bool // a tool is called, which nobody offered
	failed     bool
	failure    json.RawMessage // said of it, nil: nothing special
}

// badMark stands in a text for badBytes. It is a character for private use, which JSON leaves as it is.
const badMark = "\uf8fe"

// badBytes are what a JSON string may not hold, or not hold for us: a NUL, half a surrogate pair, and bytes that are no UTF-8.
var badBytes = []byte("\\u0000\\ud800\xff\xfe")

// spoil puts the bad bytes where say marked them.
func spoil(b []byte, r *rule) []byte {
	if r.Do != doBadText {
		return b
	}
	return bytes.ReplaceAll(b, []byte(badMark), badBytes)
}

// say makes the answer to c under r: the same one for the same request.
func say(c call, r *rule) reply {
	out := reply{finish: "stop", word: r.FinishReason, input: c.input}
	switch {
	case r.Do == doEmpty:
	case r.Text == nil && len(r.ToolCalls) > 0:
	case r.Text != nil:
		out.text = llm.CleanText(*r.Text)
	default:
		out.text = "echo: " + cut(c.content, echoBytes)
	}
	if c.limit > 0 && tokens(len(out.text)) > c.limit {
		out.text, out.finish = cut(out.text, int(4*c.limit)), "length"
	}
	size := len(out.text)
	out.calls = called(r.ToolCalls)
	for _, c := range out.calls {
		size += len(c.Function.Name) + len(c.Function.Arguments)
	}
	out.output = tokens(size)
	switch r.Do {
	case doBadText:
		out.text += badMark
	case doNoUsage:
		out.noUsage = true
	case doEarlyUsage:
		out.earlyUsage = true
	case doRefuse:
		out.refused = true
	case doToolCall:
		out.tool, out.text = true, ""
	case doFail:
		out.failed = true
		if raw, ok := r.rawBody(); ok && json.Valid(raw) {
			out.failure = raw
		}
	}
	if r.InputTokens != nil {
		out.input = *r.InputTokens
	}
	if r.OutputTokens != nil {
		out.output = *r.OutputTokens
	}
	out.cached = min(r.CachedTokens, out.input)
	out.cacheWrite = min(r.CacheWriteTokens, out.input-out.cached)
	out.reasoning = min(r.ReasoningTokens, out.output)
	return out
}

// reason is the finish reason in the protocol's words, nil when none is sent.
func (rep *reply) reason(words map[string]string) *string {
	if rep.word != nil {
		if *rep.word == "" {
			return nil
		}
		return rep.word
	}
	kind := rep.finish
	switch {
	case rep.tool, len(rep.calls) > 0:
		kind = "tool"
	case rep.refused:
		kind = "refusal"
	}
	word := words[kind]
	return &word
}

// cut keeps at most n bytes, whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// pieces is the number of pieces that a text is streamed in.
func pieces(text string) (n int) {
	for ; text != ""; n++ {
		text = text[len(cut(text, chunkBytes)):]
	}
	return n
}

// billed returns the tokens a call costs, by the rule of the package's doc.
func billed(rep reply, r *rule) (in, out int64) {
	free := r.action().free
	if !free || r.InputTokens != nil {
		in = rep.input
	}
	if !free || r.OutputTokens != nil {
		out = rep.output
	}
	return in, out
}
