package sim

import (
	"iter"
	"strconv"
)

// created is fixed: an answer depends on its request alone.
const created = 1767225600

// protocol is how calls are read and answers written; what is answered is the engine's.
type protocol struct {
	idHeader string // of the request's id
	prefix   string // of an answer's id
	parse    func(body []byte) (call, error)
	body     func(g *generation, state string) any
	events   func(g *generation) iter.Seq[event]
	refusal  func(status int, message string) []byte
	// failure is an error in a stream, as the event of that index. The data is JSON.
	failure func(index int64, data []byte) event
	failed  bool // an answer can be one that failed
}

// id is the name of the answer to call n.
func (p *protocol) id(n int64) string { return p.prefix + strconv.FormatInt(n, 10) }

// eventKind is where in an answer an event stands.
type eventKind int

const (
	kindOpening eventKind = iota // before anything is generated
	kindFrame                    // around the text
	kindPiece                    // a piece of text
	kindClosing                  // behind the text
	kindMarker                   // the terminal one
)

// event is one server-sent event.
type event struct {
	kind eventKind
	name string // of the event, when the protocol has names
	data any    // JSON, or raw when it is bytes
	text int    // bytes of text in it
}
