package history

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

const s = time.Second

// good is a history of two workers, in which everything may happen that must not be held against anyone: a lost
// acknowledgement, a takeover, a late settle refused, a retry, a cancel, a dead letter, a commit ahead.
func good() []Event {
	return []Event{
		{ID: 1, Proc: "api", Op: Submit, Type: Invoke, Task: "a", Workspace: "w", Key: "k", Inputs: "f", MaxAttempts: 3},
		{ID: 1, Proc: "api", Op: Submit, Type: Info, Task: "a", Workspace: "w", Key: "k", Inputs: "f"},
		{ID: 2, Proc: "api", Op: Submit, Type: Invoke, Task: "a", Workspace: "w", Key: "k", Inputs: "f"},
		{ID: 2, Proc: "api", Op: Submit, Type: OK, Task: "a", Workspace: "w", Key: "k", Inputs: "f"},
		{ID: 3, Proc: "api", Op: Submit, Type: OK, Task: "a", Workspace: "w", Key: "k", Inputs: "other", Verdict: "key_reused"},
		{ID: 4, Proc: "api", Op: Submit, Type: OK, Task: "b", Workspace: "w", Key: "k2", Inputs: "f", MaxAttempts: 1},
		{Op: Record, Type: OK, T: 0, Partition: 0, Offset: 0, Task: "a"},
		{Op: Record, Type: OK, T: 0, Partition: 0, Offset: 1},
		{Op: Record, Type: OK, T: 0, Partition: 0, Offset: 3, Task: "b"},
		{Op: DeadLetter, Type: OK, T: s, Partition: 0, Offset: 1},

		{T: s, ID: 10, Proc: "w1", Op: Claim, Type: Invoke, Task: "a", Workspace: "w"},
		{T: s, ID: 10, Proc: "w1", Op: Claim, Type: Applied, Task: "a", Workspace: "w", Version: 1, Verdict: "claimed", Status: "running", LeaseUntil: 5 * s},
		{T: s, ID: 10, Proc: "w1", Op: Claim, Type: OK, Task: "a", Workspace: "w", Version: 1, Verdict: "claimed", Status: "running"},
		{T: s, ID: 11, Proc: "w1", Op: Call, Type: Invoke, Task: "a"},
		{T: 3 * s, ID: 12, Proc: "w1", Op: Renew, Type: Invoke, Task: "a", Version: 1},
		{T: 3 * s, ID: 12, Proc: "w1", Op: Renew, Type: Applied, Task: "a", Version: 1, Verdict: "kept", LeaseUntil: 7 * s},
		{T: 3 * s, ID: 12, Proc: "w1", Op: Renew, Type: OK, Task: "a", Version: 1, Verdict: "kept"},
		{T: 4 * s, ID: 13, Proc: "w2", Op: Claim, Type: Invoke, Task: "a", Workspace: "w"},
		{T: 4 * s, ID: 13, Proc: "w2", Op: Claim, Type: Applied, Task: "a", Workspace: "w", Verdict: "leased", Status: "running"},
		{T: 4 * s, ID: 13, Proc: "w2", Op: Claim, Type: OK, Task: "a", Workspace: "w", Verdict: "leased", Status: "running"},
		{T: 8 * s, ID: 14, Proc: "w2", Op: Claim, Type: Invoke, Task: "a", Workspace: "w"},
		{T: 8 * s, ID: 14, Proc: "w2", Op: Claim, Type: Applied, Task: "a", Workspace: "w", Version: 2, Verdict: "claimed", Status: "running", LeaseUntil: 12 * s},
		{T: 8 * s, ID: 14, Proc: "w2", Op: Claim, Type: OK, Task: "a", Workspace: "w", Version: 2, Verdict: "claimed", Status: "running"},
		{T: 8 * s, ID: 15, Proc: "w2", Op: Call, Type: Invoke, Task: "a"},
		{T: 9 * s, ID: 11, Proc: "w1", Op: Call, Type: OK, Task: "a", Tokens: &Tokens{1, 2}},
		{T: 9 * s, ID: 16, Proc: "w1", Op: Settle, Type: Invoke, Task: "a", Version: 1, Outcome: "complete", Reply: "r1"},
		{T: 9 * s, ID: 16, Proc: "w1", Op: Settle, Type: Applied, Task: "a", Version: 1, Outcome: "complete", Verdict: "taken_over", Status: "running"},
		{T: 9 * s, ID: 16, Proc: "w1", Op: Settle, Type: OK, Task: "a", Version: 1, Outcome: "complete", Verdict: "taken_over", Status: "running"},
		{T: 9 * s, ID: 15, Proc: "w2", Op: Call, Type: Fail, Task: "a"},
		{T: 9 * s, ID: 17, Proc: "w2", Op: Settle, Type: Invoke, Task: "a", Version: 2, Outcome: "retry"},
		{T: 9 * s, ID: 17, Proc: "w2", Op: Settle, Type: Applied, Task: "a", Version: 2, Outcome: "retry", Verdict: "accepted", Status: "queued"},
		{T: 9 * s, ID: 17, Proc: "w2", Op: Settle, Type: Info, Task: "a", Version: 2, Outcome: "retry"},
		{T: 9 * s, ID: 18, Proc: "w2", Op: Settle, Type: Invoke, Task: "a", Version: 2, Outcome: "retry"},
		{T: 9 * s, ID: 18, Proc: "w2", Op: Settle, Type: Applied, Task: "a", Version: 2, Outcome: "retry", Verdict: "accepted", Status: "queued"},
		{T: 9 * s, ID: 18, Proc: "w2", Op: Settle, Type: OK, Task: "a", Version: 2, Outcome: "retry", Verdict: "accepted", Status: "queued"},
		{T: 9 * s, ID: 19, Proc: "w2", Op: Claim, Type: Invoke, Task: "a", Workspace: "w"},
		{T: 9 * s, ID: 19, Proc: "w2", Op: Claim, Type: Applied, Task: "a", Workspace: "w", Version: 3, Verdict: "claimed", Status: "running", LeaseUntil: 13 * s},
		{T: 9 * s, ID: 19, Proc: "w2", Op: Claim, Type: OK, Task: "a", Workspace: "w", Version: 3, Verdict: "claimed", Status: "running"},
		{T: 9 * s, ID: 20, Proc: "w2", Op: Call, Type: Invoke, Task: "a"},
		{T: 10 * s, ID: 20, Proc: "w2", Op: Call, Type: OK, Task: "a", Tokens: &Tokens{3, 4}},
		{T: 10 * s, ID: 21, Proc: "client", Op: Cancel, Type: OK, Task: "b", Workspace: "w", Status: "cancelled"},
		{T: 10 * s, ID: 22, Proc: "client", Op: Read, Type: OK, Task: "b", Workspace: "else", Verdict: "not_found"},
		{T: 10 * s, ID: 40, Proc: "w2", Op: Commit, Type: Invoke, Partition: 0},
		{T: 10 * s, ID: 40, Proc: "w2", Op: Wire, Type: Invoke, Partition: 0, Offset: 0, Ahead: []Span{{1, 4}}},
		{T: 10 * s, ID: 40, Proc: "w2", Op: Commit, Type: OK, Partition: 0, Offset: 0},
		{T: 10 * s, ID: 23, Proc: "w2", Op: Settle, Type: Invoke, Task: "a", Version: 3, Outcome: "complete", Reply: "r2"},
		{T: 10 * s, ID: 23, Proc: "w2", Op: Settle, Type: Applied, Task: "a", Version: 3, Outcome: "complete", Reply: "r2", Verdict: "accepted", Status: "completed"},
		{T: 10 * s, ID: 23, Proc: "w2", Op: Settle, Type: OK, Task: "a", Version: 3, Outcome: "complete", Reply: "r2", Verdict: "accepted", Status: "completed"},
		{T: 11 * s, ID: 41, Proc: "w2", Op: Commit, Type: Invoke, Partition: 0},
		{T: 11 * s, ID: 41, Proc: "w2", Op: Wire, Type: Invoke, Partition: 0, Offset: 4},
		{T: 11 * s, ID: 41, Proc: "w2", Op: Commit, Type: OK, Partition: 0, Offset: 4},
		{T: 11 * s, ID: 42, Proc: "client", Op: Read, Type: Invoke, Task: "a", Workspace: "w"},
		{T: 11 * s, ID: 42, Proc: "client", Op: Read, Type: OK, Task: "a", Workspace: "w", Version: 3, Status: "completed", Reply: "r2"},
		{T: 60 * s, Op: Quiet, Type: OK},
		{T: 60 * s, Op: Attempt, Type: OK, Task: "a", Version: 1, Tokens: &Tokens{1, 2}},
		{T: 60 * s, Op: Attempt, Type: OK, Task: "a", Version: 2},
		{T: 60 * s, Op: Attempt, Type: OK, Task: "a", Version: 3, Tokens: &Tokens{3, 4}},
		{T: 60 * s, Op: Final, Type: OK, Task: "a", Workspace: "w", Version: 3, Status: "completed", Reply: "r2"},
		{T: 60 * s, Op: Final, Type: OK, Task: "b", Workspace: "w", Status: "cancelled"},
	}
}

func TestGoodHistoryIsClean(t *testing.T) {
	for _, v := range Check(good()) {
		t.Error(v)
	}
	var file bytes.Buffer
	if err := Encode(&file, good()); err != nil {
		t.Fatal(err)
	}
	read, err := Decode(&file)
	if err != nil || len(read) != len(good()) {
		t.Fatalf("%d events, %v", len(read), err)
	}
	for _, v := range Check(read) {
		t.Error("read back:", v)
	}
}

// clientView is a history as callers see it: nobody stands inside the store.
func clientView(events []Event) []Event {
	return slices.DeleteFunc(events, func(e Event) bool { return e.Type == Applied })
}

func TestGoodHistoryIsCleanAsItsCallersSeeIt(t *testing.T) {
	for _, v := range Check(clientView(good())) {
		t.Error(v)
	}
}

// edit changes the events that match, and fails when there are none.
func edit(t *testing.T, events []Event, match func(*Event) bool, change func(*Event)) []Event {
	t.Helper()
	n := 0
	for i := range events {
		if match(&events[i]) {
			change(&events[i])
			n++
		}
	}
	if n == 0 {
		t.Fatal("nothing to edit")
	}
	return events
}

func id(id int64, types ...Type) func(*Event) bool {
	return func(e *Event) bool { return e.ID == id && (len(types) == 0 || slices.Contains(types, e.Type)) }
}

func op(op Op) func(*Event) bool { return func(e *Event) bool { return e.Op == op } }

func without(match func(*Event) bool) func(*testing.T, []Event) []Event {
	return func(t *testing.T, events []Event) []Event {
		n := len(events)
		events = slices.DeleteFunc(events, func(e Event) bool { return match(&e) })
		if len(events) == n {
			t.Fatal("nothing to delete")
		}
		return events
	}
}

func changed(match func(*Event) bool, change func(*Event)) func(*testing.T, []Event) []Event {
	return func(t *testing.T, events []Event) []Event { return edit(t, events, match, change) }
}

func accepted(e *Event) { e.Verdict, e.Status, e.Reply = "accepted", "completed", "r1" }

func TestEachViolationIsFound(t *testing.T) {
	for _, c := range []struct {
		name, invariant, text string
		change                func(*testing.T, []Event) []Event
	}{
		{"a stale settle accepted", "I4", "after version 2 was given out", changed(id(16, Applied, OK), accepted)},
		{"and its reply saved beside the other", "I1", "second reply", changed(id(16, Applied, OK), accepted)},
		{"as its callers see it", "I4", "it was sent after version 2", func(t *testing.T, e []Event) []Event {
			return clientView(edit(t, e, id(16, OK), accepted))
		}},
		{"as a register", "register", "no order", func(t *testing.T, e []Event) []Event {
			return clientView(edit(t, e, id(16, OK), accepted))
		}},
		{"a reader sees another reply", "I1", "second reply", changed(id(42, OK), func(e *Event) { e.Reply = "r3" })},
		{"one version settled twice", "I1", "settled twice", changed(id(18, Applied), func(e *Event) { e.Outcome = "fail"; e.Status = "failed" })},
		{"settled after the lease", "I4", "its lease ended", changed(id(23), func(e *Event) { e.T = 14 * s })},
		{"renewed after the lease", "I4", "it had ended", changed(id(12, Applied), func(e *Event) { e.T = 6 * s })},
		{"renewed after a takeover", "I4", "renewed after version 2", func(t *testing.T, e []Event) []Event {
			late := e[15]
			late.T = 8 * s
			return slices.Insert(e, 22, late)
		}},
		{"claimed under a lease", "I4", "while the lease of version 1 runs", changed(id(14, Applied), func(e *Event) { e.T = 6 * s })},
		{"a version given out twice", "I4", "gave version 1 after version 1", changed(id(14, Applied), func(e *Event) { e.Version = 1 })},
		{"claimed after its end", "I4", "after it had ended", func(t *testing.T, e []Event) []Event {
			i := slices.IndexFunc(e, func(e Event) bool { return e.Op == Quiet })
			return slices.Insert(e, i, Event{T: 50 * s, ID: 50, Op: Claim, Type: Applied, Proc: "w2", Task: "a", Version: 4, Verdict: "claimed", Status: "running"})
		}},
		{"committed past unfinished work", "I2", "offset 0 was not settled", changed(id(40), func(e *Event) { e.Offset = 1 })},
		{"committed ahead what is not", "I2", "offset 0 as settled ahead", changed(func(e *Event) bool { return e.Op == Wire && e.ID == 40 }, func(e *Event) { e.Ahead = []Span{{0, 2}} })},
		{"committed before the dead letter", "I2", "offset 1", changed(op(DeadLetter), func(e *Event) { e.T = 20 * s })},
		{"committed without a dead letter", "I2", "offset 1", without(op(DeadLetter))},
		{"a position goes back", "I2", "went back from 4 to 0", func(t *testing.T, e []Event) []Event {
			return append(e, Event{ID: 60, Op: Commit, Type: Invoke}, Event{ID: 60, Op: Commit, Type: OK})
		}},
		{"lost", "I3", "not there at the end", without(func(e *Event) bool { return e.Op == Final && e.Task == "b" })},
		{"never ended", "I3", "still queued", changed(func(e *Event) bool { return e.Op == Final && e.Task == "b" }, func(e *Event) { e.Status = "queued" })},
		{"more calls than allowed", "I5", "call 3 of a budget of 2", changed(op(Submit), func(e *Event) { e.MaxAttempts = min(e.MaxAttempts, 2) })},
		{"a call that was not claimed", "I5", "call 1 of w9", changed(id(11), func(e *Event) { e.Proc = "w9" })},
		{"a second call for one claim", "I5", "call 2 of w1", func(t *testing.T, e []Event) []Event {
			return slices.Insert(e, 17, Event{ID: 51, Op: Call, Type: Invoke, Proc: "w1", Task: "a"})
		}},
		{"a call for a released claim", "I5", "call 2 of w2", changed(id(17), func(e *Event) { e.Outcome = "release" })},
		{"two tasks for a key", "I6", "a second task", changed(id(3), func(e *Event) { e.Task, e.Inputs, e.Verdict = "b", "f", "" })},
		{"a key for other inputs", "I6", "accepted for other inputs", changed(id(3), func(e *Event) { e.Verdict = "" })},
		{"a key refused for its own inputs", "I6", "refused for the inputs", changed(id(3), func(e *Event) { e.Inputs = "f" })},
		{"a report that is not in the ledger", "I7", "reported to w1", without(func(e *Event) bool { return e.Op == Attempt && e.Version == 1 })},
		{"a report with other numbers", "I7", "reported to w2", changed(func(e *Event) bool { return e.Op == Attempt && e.Version == 3 }, func(e *Event) { e.Tokens = &Tokens{0, 0} })},
		{"another workspace's answer", "I8", "answered for workspace else", changed(id(22), func(e *Event) { e.Verdict, e.Status = "", "cancelled" })},
		{"another workspace's claim", "I8", "claim answered for workspace else", changed(id(13), func(e *Event) { e.Workspace = "else" })},
		{"a read of the past", "register", "no order", changed(id(42, OK), func(e *Event) { e.Version = 2 })},
		{"finished, and claimed again", "register", "no order", changed(id(42, OK), func(e *Event) { e.Status, e.Reply = "queued", "" })},
		{"not there any more", "register", "no order", changed(id(13, OK), func(e *Event) { e.Verdict = "missing" })},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := Check(c.change(t, good()))
			if !slices.ContainsFunc(found, func(v Violation) bool {
				return v.Invariant == c.invariant && strings.Contains(v.Text, c.text)
			}) {
				t.Errorf("not found: %s %q; found %v", c.invariant, c.text, found)
			}
		})
	}
}

// What a dead worker was told is gone with it.
func TestAHistoryFromOutsideNeedsNoCauses(t *testing.T) {
	events := []Event{
		{Op: Submit, Type: OK, Task: "a", Workspace: "w"},
		{Op: Record, Type: OK, Task: "a", Workspace: "w"},
		{T: 1, Op: Read, Type: OK, Task: "a", Workspace: "w", Status: "completed", Reply: "r"},
		{T: 2, Op: Wire, Type: OK, Offset: 1},
		{Op: Final, Type: OK, Task: "a", Workspace: "w", Status: "completed", Reply: "r", Version: 3},
		{Op: Quiet},
	}
	if found := Check(events); len(found) != 0 {
		t.Error(found)
	}
	events[2], events[3] = events[3], events[2]
	if found := Check(events); len(found) != 1 || found[0].Invariant != "I2" {
		t.Errorf("a position ahead of the end it needs: %v", found)
	}
}

func TestKilledWorkerOwesNoReport(t *testing.T) {
	events := slices.DeleteFunc(good(), func(e Event) bool { return e.Op == Attempt && e.Version == 1 })
	events = append(events, Event{Op: Killed, Type: OK, Proc: "w1"})
	for _, v := range Check(events) {
		t.Error(v)
	}
}

// What is deleted holds no position back.
func TestDeletedRecordsAreGone(t *testing.T) {
	events := edit(t, good(), id(40), func(e *Event) { e.Offset = 1 })
	i := slices.IndexFunc(events, id2(40))
	for _, v := range Check(slices.Insert(events, i, Event{Op: Deleted, Type: OK, Partition: 0, Offset: 1})) {
		t.Error(v)
	}
}

func id2(n int64) func(Event) bool { return func(e Event) bool { return e.ID == n } }

// An operation whose caller never learned may have happened, at any time, or not.
func TestUnknownOutcomesStayPossible(t *testing.T) {
	base := []Event{
		{ID: 1, Op: Submit, Type: OK, Task: "a", Workspace: "w"},
		{ID: 2, Op: Claim, Type: Invoke, Task: "a"}, {ID: 2, Op: Claim, Type: Info, Task: "a"},
		{ID: 3, Op: Settle, Type: Invoke, Task: "a", Version: 1, Outcome: "complete", Reply: "r"},
		{ID: 3, Op: Settle, Type: Info, Task: "a"},
	}
	for _, last := range []Event{
		{Status: "queued", Version: 0}, {Status: "running", Version: 1}, {Status: "completed", Version: 1, Reply: "r"}, {Status: "failed", Version: 1},
	} {
		last.Op, last.Type, last.Task = Final, OK, "a"
		if found := Check(append(slices.Clone(base), last)); len(found) > 0 {
			t.Errorf("%+v: %v", last, found)
		}
	}
	if found := Check(append(slices.Clone(base), Event{Op: Final, Type: OK, Task: "a", Status: "running", Version: 2})); len(found) != 1 {
		t.Errorf("version 2 after one claim: %v", found)
	}
}

func TestDecodeSaysWhichLineIsBroken(t *testing.T) {
	events, err := Decode(strings.NewReader("{\"op\":\"read\",\"type\":\"ok\"}\n{"))
	if len(events) != 1 || err == nil || !strings.Contains(err.Error(), "event 1") {
		t.Errorf("%d events, %v", len(events), err)
	}
}
