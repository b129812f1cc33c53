package storetest

import (
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// everything re-arms what can be re-armed.
var everything = tasks.RearmTerms{Failed: true, Unfinished: true, Attempts: 5, Interruptions: 4, Deadline: 48 * time.Hour}

func (k *kit) begin(scope string) tasks.Replay {
	k.Helper()
	r, err := k.Rearmer.BeginReplay(k.ctx, tasks.Replay{
		ID: newID(), Kind: "tasks", Scope: scope, Actor: dirty("me@here"), Reason: dirty("why"), Plan: []byte(`{}`), Cursor: []byte(`{}`),
	})
	if err != nil {
		k.Fatalf("begin replay: %v", err)
	}
	return r
}

// rearm wants a verdict on each of the tasks.
func (k *kit) rearm(r tasks.Replay, terms tasks.RearmTerms, want tasks.RearmVerdict, items ...tasks.Submission) {
	k.Helper()
	got, err := k.Rearmer.Rearm(k.ctx, tasks.RearmStep{Replay: r.ID, Items: refs(items), Cursor: []byte(`{"after":"x"}`)}, terms)
	if err != nil || len(got) != len(items) {
		k.Fatalf("rearm: %v, %v", got, err)
	}
	for i, v := range got {
		if v != want {
			k.Fatalf("rearm of a %s task: %s, want %s", k.read(items[i]).Status, v, want)
		}
	}
}

func (k *kit) look(s tasks.Submission) tasks.Look {
	k.Helper()
	out, err := k.Rearmer.Look(k.ctx, uuid.Nil, []tasks.Ref{ref(s)})
	if err != nil || len(out) != 1 {
		k.Fatalf("look: %v, %v", out, err)
	}
	return out[0]
}

// failed is a task that has failed for good, without a handoff.
func (k *kit) failed(change ...func(*tasks.Submission)) tasks.Submission {
	k.Helper()
	s, w := k.started(change...)
	k.settle(fail(w), tasks.VerdictAccepted, tasks.StatusFailed)
	k.published()
	return s
}

var rearmTests = []test{
	{"I5_a_failed_task_gets_one_visible_new_budget_and_a_handoff", func(k *kit) {
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		s := k.failed(func(s *tasks.Submission) { s.TraceParent = trace })
		before := k.read(s)
		k.rearm(k.begin("a"), everything, tasks.RearmDone, s)
		after := k.read(s)
		if after.Status != tasks.StatusQueued || !after.FinishedAt.IsZero() || after.Attempts != before.Attempts ||
			after.MaxAttempts != before.MaxAttempts+5 || after.MaxInterruptions != before.MaxInterruptions+4 || after.Version != before.Version {
			k.Fatalf("before %+v, after %+v", before, after)
		}
		k.within("the new deadline", after.Deadline.Sub(before.FinishedAt), 48*time.Hour+time.Minute)
		h := k.Handoffs()
		if len(h) != 1 || h[0].TaskID != s.TaskID || h[0].TraceParent != trace || h[0].Shard != tasks.Shard(s.Workspace, s.Conversation) ||
			!h[0].AcceptedAt.Equal(before.AcceptedAt) {
			k.Fatalf("handoffs %+v", h)
		}
		w := k.take(s)
		if w.Attempts != before.Attempts+1 || w.Version != before.Version+1 {
			k.Fatalf("claimed %+v", w)
		}
		k.settle(complete(w, "at last"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "at last")
	}},
	{"I5_a_replay_re_arms_a_task_once_and_another_one_once_more", func(k *kit) {
		s := k.failed()
		first := k.begin("a")
		k.rearm(first, everything, tasks.RearmDone, s)
		k.rearm(first, everything, tasks.RearmAlready, s)
		if l, err := k.Rearmer.Look(k.ctx, first.ID, []tasks.Ref{ref(s)}); err != nil || everything.Judge(l[0]) != tasks.RearmAlready {
			k.Fatalf("look: %+v, %v", l, err)
		}
		k.settle(fail(k.take(s)), tasks.VerdictAccepted, tasks.StatusFailed)
		k.rearm(first, everything, tasks.RearmAlready, s)
		k.rearm(k.begin("b"), everything, tasks.RearmDone, s)
		if t := k.read(s); t.MaxAttempts != s.MaxAttempts+10 {
			k.Fatalf("%d attempts, want the budget raised twice", t.MaxAttempts)
		}
	}},
	{"I5_a_re_arm_whose_acknowledgement_was_lost", func(k *kit) {
		s := k.failed()
		r := k.begin("a")
		step := tasks.RearmStep{Replay: r.ID, Items: []tasks.Ref{ref(s)}, Cursor: []byte(`{"after":"y"}`)}
		k.lost(func() error { _, err := k.Rearmer.Rearm(k.ctx, step, everything); return err })
		if _, err := k.Rearmer.Rearm(k.ctx, step, everything); err != nil {
			k.Fatalf("rearm: %v", err)
		}
		again, err := k.Rearmer.OpenReplay(k.ctx, "a")
		if t := k.read(s); err != nil || t.MaxAttempts != s.MaxAttempts+5 || len(k.Handoffs()) != 1 || again.Rearmed != 1 {
			k.Fatalf("%+v, %d handoffs, %+v, %v", t, len(k.Handoffs()), again, err)
		}
	}},
	{"I1_what_is_completed_or_cancelled_or_in_work_stays_as_it_is", func(k *kit) {
		done, w := k.started()
		k.settle(complete(w, "saved"), tasks.VerdictAccepted, tasks.StatusCompleted)
		cancelled := k.submit()
		if _, _, err := k.Store.Cancel(k.ctx, cancelled.Workspace, cancelled.TaskID); err != nil {
			k.Fatalf("cancel: %v", err)
		}
		working, _ := k.started()
		k.published()
		r := k.begin("a")
		for s, want := range map[*tasks.Submission]tasks.RearmVerdict{
			&done: tasks.RearmCompleted, &cancelled: tasks.RearmCancelled, &working: tasks.RearmInWork,
		} {
			before := k.read(*s)
			if got := everything.Judge(k.look(*s)); got != want {
				k.Fatalf("the plan says %s of a %s task, want %s", got, before.Status, want)
			}
			k.rearm(r, everything, want, *s)
			if after := k.read(*s); after.Budget != before.Budget || after.Status != before.Status || !after.Deadline.Equal(before.Deadline) {
				k.Fatalf("before %+v, after %+v", before, after)
			}
		}
		if h := k.Handoffs(); len(h) != 0 {
			k.Fatalf("handoffs %+v", h)
		}
		k.wantReply(done, "saved")
	}},
	{"terms_name_what_is_re_armed", func(k *kit) {
		failed, queued := k.failed(), k.submit()
		k.published()
		only := everything
		only.Unfinished = false
		k.rearm(k.begin("a"), only, tasks.RearmExcluded, queued)
		only = everything
		only.Failed = false
		k.rearm(k.begin("b"), only, tasks.RearmExcluded, failed)
		k.rearm(k.begin("c"), everything, tasks.RearmDone, failed, queued)
	}},
	{"I5_a_takeover_after_a_re_arm_is_counted_as_always", func(k *kit) {
		s, _ := k.started()
		k.Advance(lease + time.Minute)
		k.rearm(k.begin("a"), everything, tasks.RearmDone, s)
		if w := k.take(s); w.Attempts != 2 || w.Interruptions != 1 {
			k.Fatalf("%+v, want the second attempt and one interruption", w)
		}
	}},
	{"I4_a_late_settle_of_a_task_that_was_re_armed_is_refused", func(k *kit) {
		s, w := k.started(func(s *tasks.Submission) { s.MaxAttempts = 1 })
		k.Advance(lease + time.Minute)
		k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
		k.rearm(k.begin("a"), everything, tasks.RearmDone, s)
		k.settle(complete(w, "late"), tasks.VerdictTakenOver, tasks.StatusQueued)
		k.settle(complete(k.take(s), "new"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "new")
	}},
	{"a_task_that_says_stop_is_left_unless_a_second_charge_is_risked", func(k *kit) {
		s, w := k.started(func(s *tasks.Submission) { s.OnAmbiguous = tasks.AmbiguousStop })
		lost := unheard(w)
		lost.Outcome, lost.Failure.Class = tasks.OutcomeFail, tasks.ClassStopOnUnsure
		k.settle(lost, tasks.VerdictAccepted, tasks.StatusFailed)
		r := k.begin("a")
		k.rearm(r, everything, tasks.RearmStopped, s)
		if l := k.look(s); !l.Stopped || everything.Judge(l) != tasks.RearmStopped {
			k.Fatalf("look: %+v", l)
		}
		risk := everything
		risk.Unsure = true
		k.rearm(r, risk, tasks.RearmDone, s)
		k.settle(complete(k.take(s), "paid twice perhaps"), tasks.VerdictAccepted, tasks.StatusCompleted)
	}},
	{"I7_what_was_reserved_is_taken_again_from_the_budget_of_today", func(k *kit) {
		k.cap(workspace, 100)
		s := k.failed(reserving(70))
		k.wantDay(workspace, 0, 0)
		k.rearm(k.begin("a"), everything, tasks.RearmDone, s)
		k.refused(tasks.ErrBudget, reserving(31))
		k.submit(reserving(30))
		k.wantDay(workspace, 0, 100)
		k.settle(costing(complete(k.take(s), "x"), 50), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.submit(reserving(20))
		k.wantDay(workspace, 50, 50)
	}},
	{"I3_a_delayed_handoff_goes_with_the_re_arm_and_recovery_leaves_the_task", func(k *kit) {
		s, w := k.started()
		k.published()
		later := retry(w, 30*time.Minute)
		later.Handoff = true
		k.settle(later, tasks.VerdictAccepted, tasks.StatusQueued)
		before := k.snapshot()
		k.rearm(k.begin("a"), everything, tasks.RearmDone, s)
		if n := len(k.Delayed()); n != 0 {
			k.Fatalf("%d delayed handoffs", n)
		}
		k.published()
		k.recover(before)
		k.recover(k.snapshot(), s) // its record has gone, too
	}},
	{"I3_a_snapshot_from_before_a_re_arm_recovers_nothing", func(k *kit) {
		s := k.submit()
		k.published()
		before := k.snapshot()
		k.rearm(k.begin("a"), everything, tasks.RearmDone, s)
		k.published()
		k.recover(before)
	}},
	{"a_scope_has_one_open_replay_with_its_account", func(k *kit) {
		if _, err := k.Rearmer.OpenReplay(k.ctx, "a"); !errors.Is(err, tasks.ErrNotFound) {
			k.Fatalf("open: %v", err)
		}
		s := k.failed()
		first := k.begin("a")
		if second := k.begin("a"); second.ID != first.ID {
			k.Fatalf("%s and %s are open at once", first.ID, second.ID)
		}
		if first.Actor != cleaned("me@here") || first.Reason != cleaned("why") || first.StartedAt.IsZero() {
			k.Fatalf("%+v", first)
		}
		step := tasks.RearmStep{Replay: first.ID, Items: []tasks.Ref{ref(s), {TaskID: newID(), Workspace: workspace}}, Skipped: 7, Cursor: []byte(`{"after":"z"}`)}
		if _, err := k.Rearmer.Rearm(k.ctx, step, everything); err != nil {
			k.Fatalf("rearm: %v", err)
		}
		again, err := k.Rearmer.OpenReplay(k.ctx, "a")
		if err != nil || again.ID != first.ID || again.Rearmed != 1 || again.Skipped != 8 || !jsonEqual(again.Cursor, step.Cursor) {
			k.Fatalf("%+v, cursor %s, %v", again, again.Cursor, err)
		}
		for range 2 {
			if err := k.Rearmer.EndReplay(k.ctx, first.ID); err != nil {
				k.Fatalf("end: %v", err)
			}
		}
		if _, err := k.Rearmer.Rearm(k.ctx, step, everything); !errors.Is(err, tasks.ErrNotFound) {
			k.Fatalf("a replay that has ended goes on: %v", err)
		}
		if third := k.begin("a"); third.ID == first.ID {
			k.Fatalf("a replay that has ended is open")
		}
	}},
	{"I8_a_task_is_looked_at_and_re_armed_in_its_own_workspace_only", func(k *kit) {
		s := k.failed()
		other := s
		other.Workspace = "other"
		nul := s
		nul.Workspace = workspace + "\x00"
		r := k.begin("a")
		for _, s := range []tasks.Submission{other, nul} {
			if l := k.look(s); l != (tasks.Look{}) {
				k.Fatalf("look: %+v", l)
			}
			out, err := k.Rearmer.Rearm(k.ctx, tasks.RearmStep{Replay: r.ID, Items: []tasks.Ref{ref(s)}, Cursor: []byte(`{}`)}, everything)
			if err != nil || out[0] != tasks.RearmMissing {
				k.Fatalf("%v, %v", out, err)
			}
		}
	}},
	{"I7_a_look_says_what_answers_have_cost", func(k *kit) {
		s, w := k.started()
		k.settle(complete(w, "x"), tasks.VerdictAccepted, tasks.StatusCompleted)
		if l := k.look(s); l.Status != tasks.StatusCompleted || l.Model != "model" || l.Priced != 1 || l.PicoUSD != 13 {
			k.Fatalf("%+v", l)
		}
		if l := k.look(k.failed()); l.Priced != 0 || l.PicoUSD != 0 {
			k.Fatalf("%+v, want what cost nothing left out", l)
		}
	}},
	{"I8_select_pages_through_what_fits", func(k *kit) {
		var want []tasks.Ref
		for i := range 5 {
			s := k.failed(in("a"))
			if i > 0 {
				want = append(want, ref(s))
			}
			if i == 0 {
				k.Advance(2 * time.Hour)
			}
		}
		k.failed(in("b"))
		k.submit(in("a"))
		by := tasks.Selection{Status: tasks.StatusFailed, Class: "permanent", Workspace: "a", Within: time.Hour}
		var got []tasks.Ref
		after := uuid.Nil
		for range 10 {
			page, next, done, err := k.Rearmer.Select(k.ctx, by, after, 2)
			if err != nil || len(page) > 2 {
				k.Fatalf("%d tasks, %v", len(page), err)
			}
			got = append(got, page...)
			if after = next; done {
				break
			}
		}
		if len(got) != len(want) {
			k.Fatalf("%v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				k.Fatalf("%v, want %v", got, want)
			}
		}
		by.Class = "quota"
		if none, _, done, err := k.Rearmer.Select(k.ctx, by, uuid.Nil, 2); err != nil || !done || len(none) > 0 {
			k.Fatalf("%v, %t, %v", none, done, err)
		}
	}},
}

// jsonEqual compares what stores may write in their own form.
func jsonEqual(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
