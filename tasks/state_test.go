package tasks

import "testing"

func TestStatus(t *testing.T) {
	terminal := map[Status]bool{StatusCompleted: true, StatusFailed: true, StatusCancelled: true}
	for _, s := range Statuses {
		if !s.Valid() || s.Terminal() != terminal[s] {
			t.Errorf("%s: valid %t, terminal %t", s, s.Valid(), s.Terminal())
		}
	}
	for _, s := range []Status{"", "Queued", "done"} {
		if s.Valid() || s.Terminal() {
			t.Errorf("%q: valid %t, terminal %t", s, s.Valid(), s.Terminal())
		}
	}
}

func TestSettled_SaysWhetherTheRecordEnded(t *testing.T) {
	for _, c := range []struct {
		s    Settled
		want bool
	}{
		{Settled{Verdict: VerdictAccepted, Status: StatusCompleted}, true},
		{Settled{Verdict: VerdictAccepted, Status: StatusQueued}, false}, // a retry: the record still points at work
		{Settled{Verdict: VerdictExpired, Status: StatusRunning}, false},
		{Settled{Verdict: VerdictTakenOver, Status: StatusRunning}, false},
		{Settled{Verdict: VerdictTerminal, Status: StatusFailed}, true},
		{Settled{Verdict: VerdictCancelled, Status: StatusCancelled}, true},
		{Settled{Verdict: VerdictDeadline, Status: StatusFailed}, true},
		{Settled{Verdict: VerdictMissing}, true},
		{Settled{Verdict: VerdictInvalid, Status: StatusRunning}, false},
	} {
		if got := c.s.Ended(); got != c.want {
			t.Errorf("%+v ended: %t", c.s, got)
		}
	}
}
