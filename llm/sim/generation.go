package sim

import (
	"context"
	"sync"
	"time"
)

// generation is one run of the model for a call that is in the ledger, and what is known of its answer.
type generation struct {
	p    *protocol
	call call
	rule rule
	rep  reply
	e    *entry
	n    int64
	id   string

	begun time.Time
	due   time.Time // when the model is done, also when nobody waits for it any more

	// Of those in the background.
	cancel context.CancelFunc
	done   chan struct{} // closed when it is over

	mu  sync.Mutex
	end ending
}

// ending is how a generation ended.
type ending int

const (
	underWay ending = iota
	wasMade         // its answer is there once it is due
	wasCancelled
)

// begin lists a call and picks what is done with it.
func (s *Server) begin(p *protocol, c call, h headers) *generation {
	e := &entry{Model: c.model, Content: c.content, Messages: c.messages, SystemBytes: c.system, Params: c.params, Headers: h}
	s.note(s.ledger.arrive(e))
	g := &generation{p: p, call: c, e: e, n: e.N, id: p.id(e.N), begun: time.Now(), rule: s.script.pick(c.model, c.content)}
	if g.rule.Latency == 0 {
		g.rule.Latency = duration(s.latency)
	}
	g.due = g.begun.Add(time.Duration(g.rule.Latency))
	g.rep = say(c, &g.rule)
	if c.background {
		g.done = make(chan struct{})
	}
	g.call.content, g.call.params = "", nil // the ledger has it; here it would be held as long as the call waits, or is kept
	return g
}

// ends sets how it ended, unless it has ended before.
func (g *generation) ends(how ending) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.end == underWay {
		g.end = how
	}
}

func (g *generation) ended() ending {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.end
}

func (g *generation) cancelled() bool { return g.ended() == wasCancelled }

// ready reports whether the answer was made.
func (g *generation) ready(now time.Time) bool { return g.ended() == wasMade && !now.Before(g.due) }

// state is the word of the Responses API for how far it is.
func (g *generation) state(now time.Time) string {
	switch {
	case g.cancelled():
		return "cancelled"
	case g.ready(now):
		return g.outcome()
	case g.call.background && now.Before(g.begun.Add(time.Duration(g.rule.Latency)/4)):
		return "queued"
	}
	return "in_progress"
}

// outcome is the state that its answer has.
func (g *generation) outcome() string {
	switch {
	case g.rep.failed:
		return "failed"
	case g.rep.finish == "length" || g.rep.word != nil && *g.rep.word != "":
		return "incomplete"
	}
	return "completed"
}
