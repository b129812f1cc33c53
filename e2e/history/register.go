package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// registerTimeout bounds the search for one task's order; a history that cannot be judged within it accuses nobody.
const registerTimeout = 10 * time.Second

// register asks whether the answers that callers got can be explained by each task being one register: every operation
// takes effect at one instant between its call and its answer, or, when its caller never learned, at any time after its
// call or never. Time has no part in it, so whatever leases and deadlines allow is allowed.
func (c *checker) register() {
	if !slices.ContainsFunc(c.events, func(e Event) bool { return e.Op == Claim || e.Op == Settle }) {
		return // seen from outside alone: what tasks came to has causes that are not in the history
	}
	ops := map[string][]porcupine.Operation{}
	open := map[int64]int{} // ID: index in its task's list
	for i := range c.events {
		e := &c.events[i]
		switch e.Op {
		case Claim, Renew, Settle, Cancel, Read:
		case Final:
			ops[e.Task] = append(ops[e.Task], porcupine.Operation{Input: *e, Output: *e, Call: int64(2 * i), Return: int64(2*i + 1)})
			continue
		default:
			continue
		}
		t := c.tasks[e.Task]
		if t == nil || e.ID == 0 || t.workspace != "" && e.Workspace != "" && e.Workspace != t.workspace {
			continue
		}
		list := ops[e.Task]
		switch at, ok := open[e.ID]; {
		case e.Type == Invoke:
			open[e.ID] = len(list)
			ops[e.Task] = append(list, porcupine.Operation{Input: *e, Output: Event{Type: Info}, Call: int64(2 * i), Return: int64(2*len(c.events) + 2)})
		case !ok && e.Type == OK: // asked at some time before
			ops[e.Task] = append(list, porcupine.Operation{Input: *e, Output: *e, Return: int64(2 * i)})
		case !ok:
		case e.Type == OK:
			list[at].Output, list[at].Return = *e, int64(2*i)
		case e.Type == Fail:
			list[at].Output = *e
		}
	}
	for _, id := range c.order() {
		var kept []porcupine.Operation
		for _, op := range ops[id] {
			switch output, known := op.Output.(Event), op.Input.(Event).Op; {
			case output.Type == Fail:
			case output.Verdict == "missing" && c.tasks[id].workspace == "": // a record pointed at what never was
			case output.Type == Info && (known == Read || known == Renew): // changes nothing and says nothing
			default:
				kept = append(kept, op)
			}
		}
		if porcupine.CheckOperationsTimeout(registerModel, kept, registerTimeout) == porcupine.Illegal {
			c.violation("register", id, "no order of its %d operations explains their answers", len(kept))
		}
	}
}

// state of a task's register. It is comparable, as porcupine wants it.
type state struct {
	status  string
	version int64
	reply   string
	settled string // by version, from 1: the letter of the accepted outcome, '-' for none
}

var registerModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{status: "queued"}} },
	Step: func(s, input, output any) []any { return step(s.(state), input.(Event), output.(Event)) },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v -> %+v", input, output)
	},
}).ToModel()

// step returns the states that can follow, none when the answer cannot have been given in s.
func step(s state, in, out Event) []any {
	unknown := out.Type == Info
	switch in.Op {
	case Claim:
		return stepClaim(s, out, unknown)
	case Settle:
		return stepSettle(s, in, out, unknown)
	case Cancel:
		return stepCancel(s, out, unknown)
	case Renew:
		if out.Verdict == "kept" {
			return only(s, s.status == "running" && s.version == in.Version)
		}
		return []any{s}
	default: // Read, Final
		return only(s, out.Status == s.status && (out.Version == 0 || out.Version == s.version) && (out.Reply == "" || out.Reply == s.reply))
	}
}

func stepClaim(s state, out Event, unknown bool) []any {
	if unknown {
		if terminal(s.status) {
			return []any{s}
		}
		// Not carried out, claimed, or found to have spent its budget.
		return []any{s, s.claimed(), s.as("failed")}
	}
	switch out.Verdict {
	case "claimed":
		return only(s.claimed(), !terminal(s.status) && out.Version == s.version+1)
	case "finished":
		if terminal(s.status) {
			return only(s, out.Status == s.status)
		}
		return only(s.as("failed"), out.Status == "failed")
	case "leased":
		return only(s, s.status == "running")
	case "not_due", "handed_off":
		return only(s, s.status == "queued")
	}
	return nil // it does exist
}

func stepSettle(s state, in, out Event, unknown bool) []any {
	current := s.status == "running" && s.version == in.Version
	if unknown {
		if !current {
			return []any{s}
		}
		states := []any{s, s.settledBy(in)}
		if in.Outcome == "complete" {
			states = append(states, s.as("failed")) // past the deadline
		}
		return states
	}
	switch out.Verdict {
	case "accepted":
		if current {
			return only(s.settledBy(in), out.Status == "" || out.Status == s.settledBy(in).status)
		}
		return only(s, s.letter(in.Version) == letterOf(in.Outcome) && (in.Outcome != "complete" || in.Reply == s.reply))
	case "deadline":
		return only(s.as("failed"), current && in.Outcome == "complete")
	case "lease_expired":
		return only(s, current)
	case "taken_over":
		return only(s, !terminal(s.status) && !current)
	case "cancelled":
		return only(s, s.status == "cancelled")
	case "terminal":
		return only(s, s.status == "completed" || s.status == "failed")
	case "invalid":
		return []any{s}
	}
	return nil
}

func stepCancel(s state, out Event, unknown bool) []any {
	after := s
	if !terminal(s.status) {
		after.status = "cancelled"
	}
	if unknown {
		return []any{s, after}
	}
	return only(after, out.Status == after.status)
}

func only(s state, possible bool) []any {
	if !possible {
		return nil
	}
	return []any{s}
}

func (s state) as(status string) state {
	s.status = status
	return s
}

func (s state) claimed() state {
	s.status = "running"
	s.version++
	return s
}

func (s state) letter(version int64) byte {
	if version < 1 || version > int64(len(s.settled)) {
		return '-'
	}
	return s.settled[version-1]
}

// letterOf is an outcome in state.settled. retry and release begin alike.
func letterOf(outcome string) byte {
	if outcome == "release" {
		return 'l'
	}
	return outcome[0]
}

// settledBy is s after its running version's settle.
func (s state) settledBy(in Event) state {
	letters := []byte(s.settled)
	for int64(len(letters)) < s.version {
		letters = append(letters, '-')
	}
	letters[s.version-1] = letterOf(in.Outcome)
	s.settled = string(letters)
	switch in.Outcome {
	case "complete":
		s.status, s.reply = "completed", in.Reply
	case "fail":
		s.status = "failed"
	default:
		s.status = "queued"
	}
	return s
}
