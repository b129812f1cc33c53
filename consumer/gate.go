package consumer

import (
	"time"

	"github.com/fencepost/fencepost/llm"
)

// Gate says when calls may begin: what the provider allows, what workspaces may use, and whether calls are worth making
// at all. An attempt is counted when it is claimed, so that the gate is asked before. It must not block.
type Gate interface {
	// Admit asks for the begin of a call: ok with no wait, now; ok with a wait, after it, without asking again; not ok, no,
	// and ask again after the wait.
	Admit(workspace string) (wait time.Duration, ok bool)
	// Withdraw gives back an admission whose call was not begun.
	Withdraw(workspace string)
	// Done says what an admitted call came to; f is nil for an answer, tokens 0 where they are not known.
	Done(workspace string, tokens int64, f *llm.Failure)
	// Blocked is how long no call at all may begin; 0: calls may.
	Blocked() time.Duration
}

// judgeEvery is how often a record that the gate keeps back is looked at in the store, where its task may have been
// cancelled or have reached its deadline.
const judgeEvery = 10 * time.Second

// admit asks the gate for a queued record. False: it is parked, or has to be judged without being claimed: for hold, when
// that is not 0. With c.mu held.
func (c *Consumer) admit(it *item) (ok bool, hold time.Duration) {
	if c.cfg.Gate == nil {
		return true, 0
	}
	if it.admitted {
		if c.cfg.Gate.Blocked() <= 0 {
			return true, 0
		}
		c.withdraw(it) // it had waited for its place, and meanwhile calls have begun to fail
	}
	wait, ok := c.cfg.Gate.Admit(it.ref.Workspace)
	it.admitted = ok
	if ok && wait <= 0 {
		return true, 0
	}
	now := c.now()
	if !ok && (it.judged == 0 || time.Duration(now-it.judged) > judgeEvery) {
		it.judged = now
		return false, max(wait, time.Millisecond)
	}
	c.park(it, wait, false)
	return false, 0
}

// withdraw gives back the admission of a record that is not called. With c.mu held.
func (c *Consumer) withdraw(it *item) {
	if it.admitted {
		it.admitted = false
		c.cfg.Gate.Withdraw(it.ref.Workspace)
	}
}

// passed tells the gate what a call came to.
func (c *Consumer) passed(j *job, report llm.Report, err error) {
	if !j.admitted {
		return
	}
	var tokens int64
	if u := report.Usage; u != nil {
		tokens = u.Input() + u.OutputTokens
	}
	var f *llm.Failure
	if err != nil {
		f = failure(err)
	}
	c.cfg.Gate.Done(j.work.Workspace, tokens, f)
}
