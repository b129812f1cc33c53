package history

import "time"

// task is what the history has shown of one task so far.
type task struct {
	id          string
	workspace   string // of its submission; empty when that is not in the history
	maxAttempts int
	accepted    bool // its submitter has a 2xx
	ended       int  // index of the first event that shows it terminal, -1 before
	reply       string

	acked    int64                   // greatest version whose claim was acknowledged
	latest   int64                   // greatest version that the store gave out, where it is seen
	floor    map[int64]int64         // acked, when the settle of this ID was sent
	leases   map[int64]time.Duration // until when, by version, where it is seen
	settled  map[int64]string        // accepted settles: outcome and reply, by version
	handoffs []time.Duration         // when the store was told to hand the task off anew

	claims, calls map[string]int // by proc: counted claims, less what was handed back; calls
	answers       []answer
	ledger        map[Tokens]int
}

// answer is a usage report that a worker got.
type answer struct {
	proc   string
	tokens Tokens
	event  int
}

func newTask(id string) *task {
	return &task{
		id: id, ended: -1, floor: map[int64]int64{}, leases: map[int64]time.Duration{}, settled: map[int64]string{},
		claims: map[string]int{}, calls: map[string]int{}, ledger: map[Tokens]int{},
	}
}

// checkReply is I1, wherever a reply is seen.
func (c *checker) checkReply(t *task, reply string) {
	switch {
	case reply == "":
	case t.reply == "":
		t.reply = reply
	case t.reply != reply:
		c.violation("I1", t.id, "a second reply %s beside %s", reply, t.reply)
	}
}

// checkKey is I6.
func (c *checker) checkKey(t *task, e *Event) {
	if e.Type == OK && e.Verdict == "" {
		t.accepted = true
	}
	if e.Type != OK || e.Key == "" {
		return
	}
	s := scope{e.Workspace, e.Key}
	switch b, known := c.keys[s]; {
	case e.Verdict == "key_reused":
		if known && b.inputs == e.Inputs {
			c.violation("I6", t.id, "key %q refused for the inputs it is bound to", e.Key)
		}
	case !known:
		c.keys[s] = binding{e.Task, e.Inputs}
	case b.inputs != e.Inputs:
		c.violation("I6", t.id, "key %q accepted for other inputs than those of task %s", e.Key, b.task)
	case b.task != e.Task:
		c.violation("I6", t.id, "key %q gave a second task beside %s", e.Key, b.task)
	}
}

// checkWorkspace is I8: an answer about a task for a workspace that is not the task's.
func (c *checker) checkWorkspace(t *task, e *Event) {
	if e.Type == Invoke || e.Type == Fail || e.Type == Info || e.Workspace == "" || t.workspace == "" || e.Workspace == t.workspace {
		return
	}
	switch e.Verdict {
	case "missing", "not_found":
		return
	}
	c.violation("I8", t.id, "%s answered for workspace %s; the task is %s's", e.Op, e.Workspace, t.workspace)
}

func (c *checker) checkClaim(t *task, e *Event) {
	if e.Type == OK && e.Verdict == "claimed" {
		t.acked = max(t.acked, e.Version)
	}
	if !c.decided(e) {
		return
	}
	switch e.Verdict {
	case "claimed":
		if e.Version <= t.latest {
			c.violation("I4", t.id, "claim gave version %d after version %d", e.Version, t.latest)
		}
		if until, ok := t.leases[t.latest]; ok && t.settled[t.latest] == "" && e.T < until {
			c.violation("I4", t.id, "claimed at %s while the lease of version %d runs until %s", e.T, t.latest, until)
		}
		t.latest = max(t.latest, e.Version)
		t.claims[e.Proc]++
		if e.LeaseUntil > 0 {
			t.leases[e.Version] = e.LeaseUntil
		}
		if t.ended >= 0 {
			c.violation("I4", t.id, "claimed after it had ended")
		}
	case "handed_off":
		t.handoffs = append(t.handoffs, e.T)
	}
}

func (c *checker) checkRenew(t *task, e *Event) {
	if !c.decided(e) || e.Verdict != "kept" {
		return
	}
	if e.Version < t.latest {
		c.violation("I4", t.id, "lease of version %d renewed after version %d was given out", e.Version, t.latest)
	}
	if until, ok := t.leases[e.Version]; ok && until <= e.T {
		c.violation("I4", t.id, "lease renewed at %s; it had ended at %s", e.T, until)
	}
	if e.LeaseUntil > 0 {
		t.leases[e.Version] = e.LeaseUntil
	}
}

// checkSettle is I1 and I4.
func (c *checker) checkSettle(t *task, e *Event) {
	if e.Type == Invoke {
		t.floor[e.ID] = t.acked
		return
	}
	if !c.decided(e) || e.Verdict != "accepted" {
		return
	}
	// A settle whose acknowledgement was lost is sent again, and accepted again: that is one decision, not two.
	decision := e.Outcome + " " + e.Reply
	if t.settled[e.Version] == decision || t.settled[e.Version] == "" && c.unknownBefore(e) {
		return
	}
	c.checkReply(t, e.Reply)
	if e.Version < t.latest && c.inside[Claim] {
		c.violation("I4", t.id, "settle of version %d accepted after version %d was given out", e.Version, t.latest)
	} else if floor, sent := t.floor[e.ID]; sent && e.Version < floor {
		c.violation("I4", t.id, "settle of version %d accepted; it was sent after version %d had been acknowledged", e.Version, floor)
	}
	if until, ok := t.leases[e.Version]; ok && c.inside[Settle] && until <= e.T {
		c.violation("I4", t.id, "settle of version %d accepted at %s; its lease ended at %s", e.Version, e.T, until)
	}
	if t.settled[e.Version] != "" {
		c.violation("I1", t.id, "version %d settled twice: %q, then %q", e.Version, t.settled[e.Version], decision)
	}
	t.settled[e.Version] = decision
	if e.Outcome == "release" {
		t.claims[e.Proc]--
	}
	if e.Handoff {
		t.handoffs = append(t.handoffs, e.T)
	}
}

// unknownBefore reports whether this very settle was sent before and its answer never came, in a history that does not
// see inside the store.
func (c *checker) unknownBefore(e *Event) bool {
	if c.inside[Settle] {
		return false
	}
	for _, before := range c.events[:c.at] {
		if before.Op == Settle && before.Type == Info && before.Task == e.Task && before.Version == e.Version && before.Outcome == e.Outcome {
			return true
		}
	}
	return false
}

// checkCall is I5.
func (c *checker) checkCall(t *task, e *Event) {
	switch e.Type {
	case Invoke:
		t.calls[e.Proc]++
		total := 0
		for _, n := range t.calls {
			total += n
		}
		if t.maxAttempts > 0 && total > t.maxAttempts {
			c.violation("I5", t.id, "call %d of a budget of %d", total, t.maxAttempts)
		}
		if (c.inside[Claim] || t.claims[e.Proc] > 0) && t.calls[e.Proc] > t.claims[e.Proc] {
			c.violation("I5", t.id, "call %d of %s, which has had %d counted claims", t.calls[e.Proc], e.Proc, t.claims[e.Proc])
		}
	case OK:
		if e.Tokens != nil {
			t.answers = append(t.answers, answer{e.Proc, *e.Tokens, c.at})
		}
	}
}

// checkSpending is I7: what a worker was told, and did not die with, is in the ledger.
func (c *checker) checkSpending(t *task) {
	for _, a := range t.answers {
		if c.killed[a.proc] {
			continue
		}
		if t.ledger[a.tokens] == 0 {
			c.found = append(c.found, Violation{Invariant: "I7", Task: t.id, Event: a.event,
				Text: "usage that was reported to " + a.proc + " is not in the ledger"})
			continue
		}
		t.ledger[a.tokens]--
	}
}
