package storetest

import (
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// model says what a store must answer, from the little that matters. Its time is a number of its own: everything in it
// is a multiple of tick, or one of the terms, none of which comes nearer to a multiple of tick than five minutes, so that
// the real time that passes while a store works decides nothing.
type model struct {
	now   time.Duration
	tasks []*modelTask
	works []*modelWork // every assignment there ever was
	saved tasks.SpendSaved
}

const (
	tick          = 25 * time.Minute // against a lease and a park of 60 minutes
	shortDeadline = 35 * time.Minute
)

var retryAfter = []time.Duration{0, 40 * time.Minute, 65 * time.Minute}

type modelTask struct {
	tasks.Submission
	status                  tasks.Status
	version                 int64
	attempts, interruptions int
	lease, due, deadline    time.Duration
	failure                 string // class of the last one
	ledger                  map[int64]*modelAttempt
	handoff                 *time.Duration // when the delayed one is due; nil: none
}

type modelAttempt struct {
	outcome tasks.AttemptOutcome
	ended   bool
	class   string
	call    tasks.Call
	reply   uuid.UUID
	ref     string // as noted
}

type modelWork struct {
	task *modelTask
	work tasks.Work
	done tasks.Settlement // its one possible reply, so that a second one is a repeat
}

// find returns the task that holds the key, or nil.
func (m *model) find(key string) *modelTask {
	for _, t := range m.tasks {
		if t.Key == key {
			return t
		}
	}
	return nil
}

func (m *model) submit(s tasks.Submission) {
	m.tasks = append(m.tasks, &modelTask{
		Submission: s, status: tasks.StatusQueued, due: m.now, deadline: m.now + s.DeadlineAfter, ledger: make(map[int64]*modelAttempt),
	})
}

// lost is the latest version whose fate is unknown, or 0.
func (t *modelTask) lost() int64 {
	for v := t.version; v > 0; v-- {
		a := t.ledger[v]
		if a == nil || a.call.InputTokens != nil || a.ended && (a.call.WireRequests == 0 || a.class != tasks.ClassStopOnUnsure) {
			continue
		}
		recovered := false
		for _, later := range t.ledger {
			recovered = recovered || later.call.Recovered == v
		}
		if !recovered {
			return v
		}
	}
	return 0
}

func (m *model) claim(by tasks.Claimer, t *modelTask) (tasks.Decision, time.Duration) {
	if t.status.Terminal() {
		return tasks.DecisionFinished, 0
	}
	before := t.interruptions
	if t.status == tasks.StatusRunning {
		if t.lease > m.now {
			return tasks.DecisionLeased, t.lease - m.now
		}
		t.interruptions++
	}
	class := ""
	switch {
	case t.interruptions > t.MaxInterruptions:
		class = tasks.ClassInterrupted
	case t.deadline <= m.now:
		class = tasks.ClassDeadline
	case t.attempts >= t.MaxAttempts && t.failure != "":
		class = t.failure
	case t.attempts >= t.MaxAttempts:
		class = tasks.ClassAttempts
	case t.OnAmbiguous == tasks.AmbiguousStop && !by.Recovers && t.lost() != 0:
		class = tasks.ClassStopOnUnsure
	case t.due-m.now > parkMax:
		t.handoff = ptr(t.due)
		return tasks.DecisionHandedOff, 0
	case t.due > m.now:
		return tasks.DecisionNotDue, t.due - m.now
	case by.Hold > 0:
		t.interruptions = before
		return tasks.DecisionNotDue, min(by.Hold, t.deadline-m.now)
	}
	if class != "" {
		t.status, t.failure = tasks.StatusFailed, class
		return tasks.DecisionFinished, 0
	}
	t.status, t.version, t.attempts, t.lease = tasks.StatusRunning, t.version+1, t.attempts+1, m.now+lease
	t.ledger[t.version] = &modelAttempt{outcome: tasks.AttemptUnknown}
	return tasks.DecisionClaimed, 0
}

func (m *model) holds(w *modelWork) bool {
	return w.task.status == tasks.StatusRunning && w.task.version == w.work.Version && w.task.lease > m.now
}

func (m *model) settle(w *modelWork, s tasks.Settlement) tasks.Verdict {
	t, a := w.task, w.task.ledger[w.work.Version]
	switch {
	case s.Outcome == tasks.OutcomeRelease && a == nil,
		s.Outcome == tasks.OutcomeComplete && a != nil && a.outcome == tasks.AttemptAccepted && a.reply == s.Candidate.ReplyID:
		return tasks.VerdictAccepted // a repeat
	}
	verdict, outcome := tasks.VerdictAccepted, tasks.AttemptNotAccepted
	switch {
	case t.status == tasks.StatusCancelled:
		verdict = tasks.VerdictCancelled
	case t.status.Terminal():
		verdict = tasks.VerdictTerminal
	case t.status != tasks.StatusRunning || t.version != w.work.Version:
		verdict = tasks.VerdictTakenOver
	case t.lease <= m.now:
		verdict = tasks.VerdictExpired
	case s.Outcome == tasks.OutcomeComplete && t.deadline <= m.now:
		verdict = tasks.VerdictDeadline
		t.status, t.failure = tasks.StatusFailed, tasks.ClassDeadline
	case s.Outcome == tasks.OutcomeComplete:
		t.status, outcome, a.reply = tasks.StatusCompleted, tasks.AttemptAccepted, s.Candidate.ReplyID
	case s.Outcome == tasks.OutcomeFail:
		t.status, outcome, t.failure = tasks.StatusFailed, tasks.AttemptFailed, s.Failure.Class
	case s.Outcome == tasks.OutcomeRetry:
		t.status, outcome, t.failure, t.due = tasks.StatusQueued, tasks.AttemptFailed, s.Failure.Class, m.now+s.RetryAfter
		if s.Handoff {
			t.handoff = ptr(t.due)
		}
	case s.Outcome == tasks.OutcomeRelease:
		t.status = tasks.StatusQueued
		t.attempts--
		delete(t.ledger, w.work.Version)
	}
	if a != nil && !a.ended {
		a.ended, a.outcome, a.class, a.call = true, outcome, s.Failure.Class, s.Call
		if s.Call.Recovered != 0 {
			a.call.InputTokens, a.call.OutputTokens, a.call.PicoUSD = new(int64), new(int64), new(int64)
		}
	}
	if e := t.ledger[s.Call.Recovered]; e != nil && e.call.InputTokens == nil {
		if !e.ended {
			e.ended, e.outcome = true, tasks.AttemptNotAccepted
		}
		e.call.WireRequests, e.call.InputTokens, e.call.OutputTokens, e.call.PicoUSD = 1, s.Call.InputTokens, s.Call.OutputTokens, s.Call.PicoUSD
	}
	return verdict
}

// replay counts what a repeat of the submission saves.
func (m *model) replay(t *modelTask) {
	if !t.status.Terminal() {
		return
	}
	m.saved.Replays++
	for _, a := range t.ledger {
		if a.call.PicoUSD != nil {
			m.saved.PicoUSD += *a.call.PicoUSD
		}
	}
}

// spend is what the attempts come to that are not under way.
func (t *modelTask) spend() (sum tasks.Spend) {
	for v, a := range t.ledger {
		if !a.ended && t.status == tasks.StatusRunning && v == t.version {
			continue
		}
		x := tasks.Spend{Attempts: 1}
		useful := a.outcome == tasks.AttemptAccepted || a.outcome == tasks.AttemptUnknown
		for _, later := range t.ledger {
			useful = useful || later.call.Recovered == v && later.outcome == tasks.AttemptAccepted
		}
		switch {
		case a.call.PicoUSD != nil:
			if a.call.InputTokens != nil {
				x.InputTokens, x.OutputTokens = *a.call.InputTokens, *a.call.OutputTokens
			}
			if x.PicoUSD = *a.call.PicoUSD; x.PicoUSD > 0 && !useful {
				x.NotAccepted = tasks.SpendPart{Attempts: 1, PicoUSD: x.PicoUSD}
			}
		case !a.ended || a.call.WireRequests > 0:
			x.UnknownAttempts = 1
		}
		sum = sum.Add(x)
	}
	return sum
}

// cost is what the ledger comes to.
func (t *modelTask) cost() tasks.Cost {
	c := tasks.Cost{PicoUSD: new(int64)}
	for _, a := range t.ledger {
		if a.call.InputTokens != nil {
			c.InputTokens += *a.call.InputTokens
			c.OutputTokens += *a.call.OutputTokens
		}
		switch {
		case a.call.PicoUSD != nil:
			*c.PicoUSD += *a.call.PicoUSD
		case !a.ended || a.call.WireRequests > 0: // a report of tokens has a price here
			c.UnknownAttempts++
		}
	}
	if c.UnknownAttempts > 0 {
		c.PicoUSD = nil
	}
	return c
}
