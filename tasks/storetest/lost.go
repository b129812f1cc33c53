package storetest

import (
	"bytes"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func stops(s *tasks.Submission) { s.OnAmbiguous = tasks.AmbiguousStop }

// unsure ends an attempt whose request may have run.
func unsure(w tasks.Work) tasks.Settlement {
	s := retry(w, 0)
	s.Failure = tasks.Failure{Class: tasks.ClassStopOnUnsure, Message: "the answer was cut off"}
	s.Call = tasks.Call{WireRequests: 1}
	return s
}

// pasts are the ways in which a first attempt may have ended, and whether its fate is then unknown to the next claim.
var pasts = []struct {
	name string
	lost bool
	end  func(k *kit, s tasks.Submission, w tasks.Work)
}{
	{"it crashed", true, func(k *kit, s tasks.Submission, w tasks.Work) { k.Advance(lease + time.Minute) }},
	{"it was ambiguous", true, func(k *kit, s tasks.Submission, w tasks.Work) {
		k.settle(unsure(w), tasks.VerdictAccepted, tasks.StatusQueued)
	}},
	{"it was cancelled while on the wire", true, func(k *kit, s tasks.Submission, w tasks.Work) {
		ended := unsure(w)
		ended.Failure.Class = "cancelled"
		k.settle(ended, tasks.VerdictAccepted, tasks.StatusQueued)
	}},
	{"it was cancelled when its lease was lost", true, func(k *kit, s tasks.Submission, w tasks.Work) {
		k.Advance(lease + time.Minute)
		ended := unsure(w)
		ended.Failure.Class = "cancelled"
		k.settle(ended, tasks.VerdictExpired, tasks.StatusRunning)
	}},
	{"it was ambiguous and nothing was sent", false, func(k *kit, s tasks.Submission, w tasks.Work) {
		ended := unsure(w)
		ended.Call.WireRequests = 0
		k.settle(ended, tasks.VerdictAccepted, tasks.StatusQueued)
	}},
	{"it was ambiguous and its usage is known", false, func(k *kit, s tasks.Submission, w tasks.Work) {
		ended := unsure(w)
		ended.Call = call()
		k.settle(ended, tasks.VerdictAccepted, tasks.StatusQueued)
	}},
	{"it was refused by the provider", false, func(k *kit, s tasks.Submission, w tasks.Work) {
		k.settle(retry(w, 0), tasks.VerdictAccepted, tasks.StatusQueued)
	}},
	{"it answered when its lease was over", false, func(k *kit, s tasks.Submission, w tasks.Work) {
		k.Advance(lease + time.Minute)
		k.settle(complete(w, "late"), tasks.VerdictExpired, tasks.StatusRunning)
	}},
	{"it was never begun", false, func(k *kit, s tasks.Submission, w tasks.Work) {
		k.settle(release(w), tasks.VerdictAccepted, tasks.StatusQueued)
	}},
}

func (k *kit) wantLost(w tasks.Work, version int64, attempt int) *tasks.Lost {
	k.Helper()
	if w.Lost == nil || w.Lost.Version != version || w.Lost.Attempt != attempt || w.Lost.Provider != "provider" {
		k.Fatalf("version %d: lost %+v, want version %d, attempt %d", w.Version, w.Lost, version, attempt)
	}
	return w.Lost
}

// wantStopped claims a task that says stop, by somebody who can recover nothing.
func (k *kit) wantStopped(s tasks.Submission, attempt int) {
	k.Helper()
	before := k.read(s)
	k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
	t := k.wantFailed(s, tasks.ClassStopOnUnsure)
	if t.Failure.Attempt != attempt || t.Failure.Message == "" || t.Attempts != before.Attempts || t.Version != before.Version {
		k.Fatalf("task %+v with failure %+v, was %+v", t, t.Failure, before)
	}
}

var lostTests = []test{
	{"I7_what_became_of_the_attempt_before", func(k *kit) {
		for _, past := range pasts {
			s, first := k.started()
			if first.Lost != nil {
				k.Fatalf("the first claim: lost %+v", first.Lost)
			}
			k.Advance(5 * time.Minute)
			past.end(k, s, first)
			w := k.take(s)
			if (w.Lost != nil) != past.lost {
				k.Fatalf("%s: lost %+v", past.name, w.Lost)
			}
			if !past.lost {
				continue
			}
			if l := k.wantLost(w, 1, 1); l.Ref != "" || l.Request != nil || l.Age < 5*time.Minute || l.Age > 2*lease {
				k.Fatalf("%s: %+v", past.name, l)
			}
		}
	}},
	{"a_task_that_says_stop_is_not_claimed_when_its_attempt_may_have_run", func(k *kit) {
		for _, past := range pasts {
			s, first := k.started(stops)
			past.end(k, s, first)
			if past.lost {
				k.wantStopped(s, 1)
			} else {
				k.take(s)
			}
			// Whoever can find out what became of it may.
			s, first = k.started(stops)
			past.end(k, s, first)
			by := claimer()
			by.Recovers = true
			if c := k.claimAll(by, ref(s))[0]; c.Decision != tasks.DecisionClaimed || (c.Work.Lost != nil) != past.lost {
				k.Fatalf("%s: claim %+v", past.name, c)
			}
		}
	}},
	{"a_stop_does_not_wait_until_it_is_due", func(k *kit) {
		for _, after := range []time.Duration{parkMax / 2, 2 * parkMax} {
			s, w := k.started(stops)
			later := unsure(w)
			later.RetryAfter = after
			k.settle(later, tasks.VerdictAccepted, tasks.StatusQueued)
			by := claimer()
			by.Recovers = true
			if c := k.claimAll(by, ref(s))[0]; c.Decision == tasks.DecisionFinished || c.Decision == tasks.DecisionClaimed {
				k.Fatalf("claim by one who recovers: %+v", c)
			}
			k.wantStopped(s, 1)
		}
	}},
	{"a_stop_is_judged_also_while_no_calls_are_made", func(k *kit) {
		s, _ := k.started(stops)
		k.Advance(lease + time.Minute)
		by := claimer()
		by.Hold = time.Minute
		if c := k.claimAll(by, ref(s))[0]; c.Decision != tasks.DecisionFinished || c.Status != tasks.StatusFailed {
			k.Fatalf("claim %+v", c)
		}
		if t := k.wantFailed(s, tasks.ClassStopOnUnsure); t.Interruptions != 1 {
			k.Fatalf("task %+v", t)
		}
	}},
	{"a_stop_names_the_attempt_that_may_have_run", func(k *kit) {
		s, w := k.started(stops)
		k.settle(unsure(w), tasks.VerdictAccepted, tasks.StatusQueued)
		by := claimer()
		by.Recovers = true
		second := k.claimAll(by, ref(s))[0].Work
		k.settle(retry(*second, 0), tasks.VerdictAccepted, tasks.StatusQueued) // it could not be asked
		k.wantStopped(s, 1)
	}},
	{"spent_budgets_come_before_a_stop", func(k *kit) {
		s, w := k.started(stops, func(s *tasks.Submission) { s.MaxAttempts = 1 })
		k.settle(unsure(w), tasks.VerdictAccepted, tasks.StatusQueued)
		k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
		if t := k.wantFailed(s, tasks.ClassStopOnUnsure); t.Failure.Message != "the answer was cut off" {
			k.Fatalf("failure %+v", t.Failure)
		}
		crashed, _ := k.started(stops, func(s *tasks.Submission) { s.MaxInterruptions = 0 })
		k.Advance(lease + time.Minute)
		k.wantClaim(crashed, tasks.DecisionFinished, tasks.StatusFailed)
		k.wantFailed(crashed, tasks.ClassInterrupted)
	}},
	{"I3_a_stop_whose_worker_died_is_recovered_and_ends", func(k *kit) {
		s, _ := k.started(stops)
		k.published()
		k.Advance(lease + time.Minute)
		k.recover(k.snapshot(), s)
		k.wantStopped(s, 1)
		k.published()
		k.recover(k.snapshot())
	}},
	{"the_latest_of_several_lost_attempts", func(k *kit) {
		s, _ := k.started(func(s *tasks.Submission) { s.MaxAttempts = 10 })
		k.Advance(lease + time.Minute)
		second := k.take(s)
		k.wantLost(second, 1, 1)
		k.settle(unsure(second), tasks.VerdictAccepted, tasks.StatusQueued)
		third := k.take(s)
		k.wantLost(third, 2, 2)
		k.settle(release(third), tasks.VerdictAccepted, tasks.StatusQueued)
		fourth := k.take(s)
		k.wantLost(fourth, 2, 2)
		k.settle(retry(fourth, 0), tasks.VerdictAccepted, tasks.StatusQueued)
		fifth := k.take(s)
		k.wantLost(fifth, 2, 2) // the one between is known not to have run
		failed := retry(fifth, 0)
		failed.Call = tasks.Call{WireRequests: 1, Recovered: 2}
		k.settle(failed, tasks.VerdictAccepted, tasks.StatusQueued)
		k.wantLost(k.take(s), 1, 1)
	}},
	{"lost_in_one_batch_with_others", func(k *kit) {
		crashed, _ := k.started()
		stopped, _ := k.started(stops)
		k.Advance(lease + time.Minute)
		fresh, done := k.submit(), k.submit(stops)
		unknown := submission()
		out := k.claimAll(claimer(), refs([]tasks.Submission{fresh, crashed, unknown, stopped, done})...)
		for i, want := range []tasks.Decision{
			tasks.DecisionClaimed, tasks.DecisionClaimed, tasks.DecisionMissing, tasks.DecisionFinished, tasks.DecisionClaimed,
		} {
			if out[i].Decision != want {
				k.Errorf("item %d: %+v, want %s", i, out[i], want)
			} else if (out[i].Work != nil && out[i].Work.Lost != nil) != (i == 1) {
				k.Errorf("item %d: lost %+v", i, out[i].Work.Lost)
			}
		}
	}},
}

var holdTests = []test{
	{"I5_a_hold_claims_nothing_and_changes_nothing", func(k *kit) {
		by := claimer()
		by.Hold = 20 * time.Minute
		queued := k.submit()
		expired, _ := k.started()
		k.Advance(lease + time.Minute)
		due, w := k.started()
		k.settle(retry(w, 0), tasks.VerdictAccepted, tasks.StatusQueued)
		short := k.submit(func(s *tasks.Submission) { s.DeadlineAfter = 15 * time.Minute })
		items := []tasks.Submission{queued, expired, due, short}
		var before []tasks.Task
		for _, s := range items {
			before = append(before, k.read(s))
		}
		for range 2 {
			for i, c := range k.claimAll(by, refs(items)...) {
				if c.Decision != tasks.DecisionNotDue || c.Status != before[i].Status {
					k.Fatalf("item %d: %+v", i, c)
				}
				want := by.Hold
				if i == 3 {
					want = 15 * time.Minute
				}
				k.within("wait", c.Wait, want)
			}
		}
		for i, s := range items {
			if t := k.read(s); t.Status != before[i].Status || t.Version != before[i].Version || t.Budget != before[i].Budget ||
				!t.LeaseUntil.Equal(before[i].LeaseUntil) || !t.AvailableAt.Equal(before[i].AvailableAt) || len(k.ledger(s)) != t.Attempts {
				k.Fatalf("item %d: %+v, was %+v", i, t, before[i])
			}
		}
		if d := k.Delayed(); len(d) != 0 {
			k.Fatalf("delayed handoffs %v", d)
		}
		if w := k.take(expired); w.Interruptions != 1 || w.Lost == nil {
			k.Fatalf("work after the hold: %+v", w)
		}
		k.take(queued)
	}},
	{"a_hold_judges_all_else_as_always", func(k *kit) {
		by := claimer()
		by.Hold = 20 * time.Minute
		completed, w := k.started()
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		running, _ := k.started()
		spent, w := k.started(func(s *tasks.Submission) { s.MaxAttempts = 1 })
		k.settle(retry(w, 0), tasks.VerdictAccepted, tasks.StatusQueued)
		soon, w := k.started()
		k.settle(retry(w, 50*time.Minute), tasks.VerdictAccepted, tasks.StatusQueued)
		far, w := k.started()
		k.settle(retry(w, 2*parkMax), tasks.VerdictAccepted, tasks.StatusQueued)
		out := k.claimAll(by, refs([]tasks.Submission{completed, running, spent, soon, far, submission()})...)
		for i, want := range []tasks.Decision{
			tasks.DecisionFinished, tasks.DecisionLeased, tasks.DecisionFinished, tasks.DecisionNotDue, tasks.DecisionHandedOff, tasks.DecisionMissing,
		} {
			if out[i].Decision != want {
				k.Errorf("item %d: %+v, want %s", i, out[i], want)
			}
		}
		k.within("wait", out[3].Wait, 50*time.Minute)
		k.wantFailed(spent, "overloaded")
		if d := k.Delayed(); len(d) != 1 || d[far.TaskID] == 0 {
			k.Fatalf("delayed handoffs %v", d)
		}
	}},
}

func (k *kit) note(items ...tasks.Note) {
	k.Helper()
	if err := k.Store.Note(k.ctx, items); err != nil {
		k.Fatalf("note: %v", err)
	}
}

// wantNoted takes the task over and wants what was noted of the attempt before.
func (k *kit) wantNoted(s tasks.Submission, noted string, request []byte) tasks.Work {
	k.Helper()
	k.Advance(lease + time.Minute)
	w := k.take(s)
	if w.Lost == nil || w.Lost.Ref != noted || !bytes.Equal(w.Lost.Request, request) || (w.Lost.Request == nil) != (request == nil) {
		k.Fatalf("lost %+v, want %q and %x", w.Lost, noted, request)
	}
	return w
}

var noteTests = []test{
	{"I7_a_note_outlives_the_worker", func(k *kit) {
		s, w := k.started(func(s *tasks.Submission) { s.MaxAttempts, s.MaxInterruptions = 10, 10 })
		k.note(tasks.Note{Assignment: w.Assignment, Request: []byte{1, 2}})
		k.note(tasks.Note{Assignment: w.Assignment, Ref: "resp_1"})
		second := k.wantNoted(s, "resp_1", []byte{1, 2})
		k.note( // what was noted is not lost with an empty one, also within a batch
			tasks.Note{Assignment: second.Assignment, Ref: "resp_2"},
			tasks.Note{Assignment: second.Assignment, Request: []byte{3}},
			tasks.Note{Assignment: second.Assignment, Ref: dirty("resp_3")},
			tasks.Note{Assignment: second.Assignment})
		third := k.wantNoted(s, cleaned("resp_3"), []byte{3})
		k.wantLost(third, 2, 2)
		fourth := k.wantNoted(s, "", nil) // of the third, nothing was noted
		k.note(tasks.Note{Assignment: fourth.Assignment, Ref: "resp_4"})
		k.note(tasks.Note{Assignment: fourth.Assignment, Request: []byte{4}})
		k.wantNoted(s, "resp_4", []byte{4})
	}},
	{"I7_a_lost_acknowledgement_of_a_note", func(k *kit) {
		s, w := k.started()
		n := tasks.Note{Assignment: w.Assignment, Ref: "resp", Request: []byte{1}}
		k.lost(func() error { return k.Store.Note(k.ctx, []tasks.Note{n}) })
		k.note(n)
		k.wantNoted(s, "resp", []byte{1})
	}},
	{"a_note_after_the_end_is_dropped", func(k *kit) {
		s, w := k.started()
		k.settle(unsure(w), tasks.VerdictAccepted, tasks.StatusQueued)
		k.note(tasks.Note{Assignment: w.Assignment, Ref: "late"})
		if l := k.wantLost(k.take(s), 1, 1); l.Ref != "" {
			k.Fatalf("lost %+v", l)
		}
	}},
	{"a_note_of_an_attempt_that_was_taken_over_is_kept", func(k *kit) {
		s, first := k.started()
		k.Advance(lease + time.Minute)
		second := k.take(s)
		k.note(tasks.Note{Assignment: first.Assignment, Ref: "first"})
		k.settle(retry(second, 0), tasks.VerdictAccepted, tasks.StatusQueued)
		if l := k.wantLost(k.take(s), 1, 1); l.Ref != "first" {
			k.Fatalf("lost %+v", l)
		}
	}},
	{"I8_a_note_of_another_workspace_or_of_nothing", func(k *kit) {
		s, w := k.started()
		foreign, none, later := w.Assignment, w.Assignment, w.Assignment
		foreign.Workspace, none.TaskID, later.Version = "w2", uuid.New(), 7
		nul := w.Assignment
		nul.Workspace = "\x00" + workspace
		mine, other := k.started()
		k.note(
			tasks.Note{Assignment: foreign, Ref: "foreign"}, tasks.Note{Assignment: none, Ref: "none"},
			tasks.Note{Assignment: later, Ref: "later"}, tasks.Note{Assignment: nul, Ref: "nul"},
			tasks.Note{Assignment: other.Assignment, Ref: "mine"})
		k.note()
		k.wantNoted(s, "", nil)
		k.wantNoted(mine, "mine", nil)
	}},
	{"notes_and_settles_in_crossing_order_do_not_deadlock", func(k *kit) {
		const callers, rounds, each = 6, 5, 20
		var items []tasks.Submission
		for range each {
			items = append(items, submission(func(s *tasks.Submission) { s.MaxAttempts = 1000 }))
		}
		k.submitAll(items...)
		for range rounds {
			claims := k.claimAll(claimer(), refs(items)...)
			together(callers, func(caller int) {
				var notes []tasks.Note
				var ends []tasks.Settlement
				for i := range each {
					w := claims[(i*(caller%2*2-1)+each)%each].Work // forwards or backwards
					notes = append(notes, tasks.Note{Assignment: w.Assignment, Ref: "resp"})
					ends = append(ends, unsure(*w))
				}
				if err := k.Store.Note(k.ctx, notes); err != nil {
					k.Errorf("note: %v", err)
				}
				if caller > 1 {
					return
				}
				if _, err := k.Store.Settle(k.ctx, ends); err != nil {
					k.Errorf("settle: %v", err)
				}
			})
		}
	}},
}
