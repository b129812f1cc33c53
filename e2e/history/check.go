package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Violation is an invariant that did not hold. Register violations have no number: the task did not behave like one
// register whose operations take effect at one instant each.
type Violation struct {
	Invariant string // "I1" .. "I8", "register"
	Task      string
	Event     int // index of the event that shows it, -1 when it is one that is missing
	Text      string
}

// String is the violation in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: task %s, event %d: %s", v.Invariant, v.Task, v.Event, v.Text)
}

// Check returns what did not hold, in the order of the events.
func Check(events []Event) []Violation {
	c := &checker{
		events: events, tasks: map[string]*task{}, inside: map[Op]bool{}, keys: map[scope]binding{},
		killed: map[string]bool{}, positions: newPositions(),
	}
	for i := range events {
		c.survey(&events[i])
	}
	for i := range events {
		c.at = i
		c.step(&events[i])
	}
	c.at = -1
	c.finish()
	c.register()
	slices.SortStableFunc(c.found, func(a, b Violation) int { return cmp.Compare(uint(a.Event), uint(b.Event)) }) // -1 last
	return c.found
}

type checker struct {
	events []Event
	at     int // index of the event that is looked at

	tasks     map[string]*task
	inside    map[Op]bool // operations whose applied events are in the history
	finals    bool        // the history ends with the tasks as they then stand
	ledger    bool        // and with their ledgers
	quiet     bool
	killed    map[string]bool
	keys      map[scope]binding
	positions positions
	found     []Violation
}

// scope is what an idempotency key is unique in.
type scope struct{ workspace, key string }

type binding struct{ task, inputs string }

func (c *checker) violation(invariant, task, format string, args ...any) {
	c.found = append(c.found, Violation{Invariant: invariant, Task: task, Event: c.at, Text: fmt.Sprintf(format, args...)})
}

// survey notes what the history shows at all, before anything is judged.
func (c *checker) survey(e *Event) {
	if e.Type == Applied {
		c.inside[e.Op] = true
	}
	switch e.Op {
	case Submit:
		// Whoever reads or forges may do so before the submitter has its answer.
		if t := c.task(e.Task); t != nil {
			t.workspace, t.maxAttempts = e.Workspace, max(t.maxAttempts, e.MaxAttempts)
		}
	case Final:
		c.finals = true
	case Attempt:
		c.ledger = true
	case Killed:
		c.killed[e.Proc] = true
	case Quiet:
		c.quiet = true
	case Record:
		c.positions.record(e)
	case DeadLetter:
		c.positions.deadLetter(e)
	}
}

// decided reports whether e says what became of its operation.
func (c *checker) decided(e *Event) bool {
	return e.Type == Applied || e.Type == OK && !c.inside[e.Op]
}

func (c *checker) task(id string) *task {
	if id == "" {
		return nil
	}
	t := c.tasks[id]
	if t == nil {
		t = newTask(id)
		c.tasks[id] = t
	}
	return t
}

func (c *checker) step(e *Event) {
	switch e.Op {
	case Wire:
		c.checkPosition(e)
		return
	case Commit:
		c.checkProgress(e)
		return
	case Deleted:
		c.positions.start[e.Partition] = e.Offset
		return
	}
	t := c.task(e.Task)
	if t == nil {
		return
	}
	c.checkWorkspace(t, e)
	switch e.Op {
	case Submit:
		c.checkKey(t, e)
	case Claim:
		c.checkClaim(t, e)
	case Renew:
		c.checkRenew(t, e)
	case Settle:
		c.checkSettle(t, e)
	case Call:
		c.checkCall(t, e)
	case Attempt:
		if e.Tokens != nil {
			t.ledger[*e.Tokens]++
		}
	case Read, Final:
		if e.Type != Invoke {
			c.checkReply(t, e.Reply)
		}
	}
	if terminal(e.Status) && (c.decided(e) || e.Op == Read || e.Op == Final) && t.ended < 0 {
		t.ended = c.at
	}
}

// finish looks at what must have come by the end.
func (c *checker) finish() {
	final := map[string]*Event{}
	for i := range c.events {
		if e := &c.events[i]; e.Op == Final {
			final[e.Task] = e
		}
	}
	for _, id := range c.order() {
		t := c.tasks[id]
		if c.finals && t.accepted {
			switch f := final[id]; {
			case f == nil:
				c.violation("I3", id, "accepted, and not there at the end")
			case c.quiet && !terminal(f.Status):
				c.violation("I3", id, "accepted, and still %s after the quiet time", f.Status)
			}
		}
		if c.ledger {
			c.checkSpending(t)
		}
	}
}

// order is the tasks by first appearance, so that two checks of one history report the same.
func (c *checker) order() []string {
	var ids []string
	seen := map[string]bool{}
	for i := range c.events {
		if id := c.events[i].Task; id != "" && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

func terminal(status string) bool {
	return status == "completed" || status == "failed" || status == "cancelled"
}
