package consumer

import (
	"errors"
	"time"

	"github.com/fencepost/fencepost/llm"
	"github.com/fencepost/fencepost/tasks"
)

// decision is what a failed attempt means for its task.
type decision struct {
	outcome tasks.Outcome
	class   string
	after   time.Duration
	handoff bool
}

// decide applies the retry policy to a failed attempt: cause is why its context ended, if it did, and took how long the
// attempt ran. A task that says stop is stopped by an ambiguous attempt, unless the next one can look up what became of
// it. The store has the last word, since it alone knows whether the assignment still stands.
func decide(cfg Config, w *tasks.Work, f *llm.Failure, cause error, took time.Duration, recovers bool) decision {
	d := decision{outcome: tasks.OutcomeFail, class: string(f.Class)}
	stop := w.OnAmbiguous == tasks.AmbiguousStop && !recovers
	switch {
	case errors.Is(cause, errLeaseLost), errors.Is(cause, errTaskOver), errors.Is(cause, errStopped):
		// Not the task's fault: whoever comes next goes on at once, within the budget.
		d.class = string(llm.Cancelled)
		if f.Class == llm.NotSent {
			d.class = string(llm.NotSent)
		} else if stop {
			d.class = string(llm.Ambiguous) // sent and torn off: it may have run
			return d
		}
		return retryOrFail(d, w, 0)
	case errors.Is(cause, errDeadline):
		d.class = tasks.ClassDeadline
		return d
	case f.Class == llm.Cancelled:
		d.class = string(llm.Ambiguous) // our own time limit: the request may have run
	}
	switch {
	case d.class == string(llm.Ambiguous) && stop:
		return d
	case d.class != string(llm.Ambiguous) && !f.Class.Retryable():
		return d
	case f.Final:
		return d // the provider itself says that it will not get better
	}
	after := cfg.Retry.Delay(w.Attempts, f.RetryAfter, nil)
	if after >= w.Remaining-took {
		return d // the deadline comes first: say so now rather than let the user wait for it
	}
	d = retryOrFail(d, w, after)
	d.handoff = d.outcome == tasks.OutcomeRetry && after > cfg.ParkMax
	return d
}

func retryOrFail(d decision, w *tasks.Work, after time.Duration) decision {
	if w.AttemptsSpent() {
		d.outcome = tasks.OutcomeFail
		return d
	}
	d.outcome, d.after = tasks.OutcomeRetry, after
	return d
}
