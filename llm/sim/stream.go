package sim

import (
	"bytes"
	"encoding/json"
	"iter"
	"net/http"
	"time"
	"unicode/utf8"
)

// chunkBytes is the size of a streamed piece of text.
const chunkBytes = 16

// split hands out a text in pieces of whole characters.
func split(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			p := cut(text, chunkBytes)
			text = text[len(p):]
			if !yield(p) {
				return
			}
		}
	}
}

// head begins a stream. Without an end of its own, its end is the connection's: who reads it cannot tell that it is early.
func (x *exchange) head(ownEnd bool) {
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	if !ownEnd {
		h.Set("Transfer-Encoding", "identity")
	}
	x.w.WriteHeader(x.status)
}

// stream writes the answer's events, and does in it what the rule says.
func (x *exchange) stream() {
	g, r := x.g, &x.g.rule
	x.head(r.Do != doEndEarly)
	if r.Do == doResetAfterHeaders {
		x.end()
		flush(x.w)
		reset(x.w)
		return
	}
	defer x.end()
	at, said, index := r.at(pieces(g.rep.text)), 0, int64(0)
	for ev := range g.p.events(g) {
		if ev.kind > kindOpening && !x.made() {
			return
		}
		struck := at >= 0 && (ev.kind == kindPiece && said == at || ev.kind > kindPiece || ev.kind == kindFrame && at == 0 && r.errorEvent())
		if struck && !(r.Do == doFail && g.p.failed) {
			x.strike(ev, index)
			return
		}
		if ev.kind == kindPiece {
			x.s.wait(x.ctx, time.Duration(r.ChunkLatency))
			said++
		}
		if ev.kind == kindMarker {
			x.end()
			if r.Do == doNoMarker {
				return
			}
		}
		if !x.put(ev) {
			return
		}
		index++
	}
}

// resume writes the events behind the one of that index, without any fault: those were the first connection's.
func (x *exchange) resume(after int64) {
	x.head(true)
	index := int64(0)
	for ev := range x.g.p.events(x.g) {
		if ev.kind > kindOpening && !x.made() {
			return
		}
		if index > after && !x.put(ev) {
			return
		}
		index++
	}
}

// made waits for what is generated in the background, and reports whether there is anything to be written.
func (x *exchange) made() bool {
	if !x.g.call.background {
		return true
	}
	select {
	case <-x.g.done:
	default:
		flush(x.w)
		select {
		case <-x.g.done:
		case <-x.ctx.Done():
			return false
		case <-x.s.closing.Done():
			return false
		}
	}
	return !x.g.cancelled()
}

// strike is the fault of a stream; ev is what would have come next.
func (x *exchange) strike(ev event, index int64) {
	switch r := &x.g.rule; r.Do {
	case doStall:
		flush(x.w)
		x.s.hang(x.ctx)
	case doCutEvent:
		line := x.line(ev)
		_, _ = x.w.Write(line[:inside(line)])
		x.end()
		flush(x.w)
	case doErrorFirst, doErrorLate, doFail:
		x.end()
		data, ok := r.rawBody()
		if !ok {
			data = x.g.p.refusal(http.StatusInternalServerError, "simulated error in the stream")
		}
		x.put(x.g.p.failure(index, data))
		return
	}
	x.end()
	if x.g.rule.Do == doEndEarly {
		return
	}
	flush(x.w)
	panic(http.ErrAbortHandler)
}

// put writes one event, and reports whether the client is still there.
func (x *exchange) put(ev event) bool {
	line := x.line(ev)
	pad := 0
	if ev.kind == kindPiece {
		pad = x.g.rule.LineBytes - len(line)
	}
	if _, err := x.w.Write(line); err != nil || !x.pad(pad) {
		return false
	}
	if _, err := x.w.Write([]byte("\n\n")); err != nil {
		return false
	}
	x.written += ev.text
	if ev.kind == kindPiece {
		flush(x.w)
	}
	return true
}

// line is an event up to its last line's end.
func (x *exchange) line(ev event) []byte {
	data, raw := ev.data.([]byte)
	if !raw {
		var err error
		if data, err = json.Marshal(ev.data); err != nil {
			data = nil // maps and strings only: it cannot fail
		}
		data = spoil(data, &x.g.rule)
	}
	var line []byte
	if ev.name != "" {
		line = append(append(append(line, "event: "...), ev.name...), '\n')
	}
	return append(append(line, "data: "...), data...)
}

// pad writes n spaces, which mean nothing behind JSON.
func (x *exchange) pad(n int) bool {
	for spaces := bytes.Repeat([]byte{' '}, min(max(n, 0), 64<<10)); n > 0; n -= len(spaces) {
		if _, err := x.w.Write(spaces[:min(n, len(spaces))]); err != nil {
			return false
		}
	}
	return true
}

// inside is a place within b, and within a character of more than one byte when there is one.
func inside(b []byte) int {
	for i := range b {
		if !utf8.RuneStart(b[i]) {
			return i
		}
	}
	return len(b) / 2
}
