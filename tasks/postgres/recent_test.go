package postgres

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fencepost/fencepost/tasks"
)

// TestRecent: the latest tasks by status and attempts by what they came to, of all workspaces, and no more of them than
// were asked for.
func TestRecent(t *testing.T) {
	k := newKit(t)
	refs := k.submit(6) // the later, the greater the id
	works := k.claim(time.Hour, refs[:5]...)
	failed := func(w tasks.Work, outcome tasks.Outcome, class string) tasks.Settlement {
		s := complete(w, "")
		s.Outcome, s.Candidate, s.Failure = outcome, tasks.Candidate{}, tasks.Failure{Class: class, Message: "why"}
		return s
	}
	if _, err := k.store.Settle(t.Context(), []tasks.Settlement{complete(works[0], "reply"), failed(works[1], tasks.OutcomeFail, "quota"),
		failed(works[2], tasks.OutcomeFail, "permanent"), failed(works[3], tasks.OutcomeRetry, "overloaded")}); err != nil {
		t.Fatal(err)
	}
	k.advance(time.Minute)

	got, err := k.store.Recent(t.Context(), 100, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got.Failures {
		if a := got.Failures[i].Age; a < time.Minute || a > time.Hour {
			t.Errorf("failed %s ago", a)
		}
		got.Failures[i].Age = 0
	}
	want := tasks.Recent{
		Tasks: 6, ByStatus: map[tasks.Status]int{tasks.StatusCompleted: 1, tasks.StatusFailed: 2, tasks.StatusQueued: 2, tasks.StatusRunning: 1},
		Attempts: 5, ByOutcome: map[string]int{"accepted": 1, "quota": 1, "permanent": 1, "overloaded": 1, tasks.RecentRunning: 1},
		Failures: []tasks.RecentFailure{
			{TaskID: refs[2].TaskID, Workspace: "w", Failure: tasks.Failure{Class: "permanent", Message: "why", Attempt: 1}},
			{TaskID: refs[1].TaskID, Workspace: "w", Failure: tasks.Failure{Class: "quota", Message: "why", Attempt: 1}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	got, err = k.store.Recent(t.Context(), 4, 1)
	if err != nil || got.Tasks != 4 || got.Attempts != 4 || len(got.Failures) != 1 || got.Failures[0].TaskID != refs[2].TaskID {
		t.Errorf("of the latest four: %+v, %v", got, err)
	}
}

// TestSpentToday: the same before and after folding, by workspace and by model, without the days before.
func TestSpentToday(t *testing.T) {
	k := newKit(t)
	refs := k.submit(3)
	other := submission("c")
	other.Workspace = "v"
	if _, err := k.store.Submit(t.Context(), []tasks.Submission{other}); err != nil {
		t.Fatal(err)
	}
	works := k.claim(time.Hour, append(refs, tasks.Ref{TaskID: other.TaskID, Workspace: "v"})...)
	var settle []tasks.Settlement
	for i, w := range works {
		s := complete(w, "reply")
		amount, tokens := int64(100*(i+1)), int64(7)
		s.Call.PicoUSD, s.Call.InputTokens, s.Call.OutputTokens, s.Call.Model = &amount, &tokens, &tokens, []string{"m", "n"}[i%2]
		settle = append(settle, s)
	}
	if _, err := k.store.Settle(t.Context(), settle); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		got, err := k.store.SpentToday(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		amounts := func(of map[string]tasks.Spend) map[string]int64 {
			out := map[string]int64{}
			for name, s := range of {
				out[name] = s.PicoUSD
			}
			return out
		}
		if got.Total.PicoUSD != 1000 || got.Total.Attempts != 4 || got.Total.InputTokens != 28 || !got.Complete || got.Day.IsZero() {
			t.Errorf("%s: %+v", when, got)
		}
		if diff := cmp.Diff(map[string]int64{"w": 600, "v": 400}, amounts(got.ByWorkspace)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
		if diff := cmp.Diff(map[string]int64{"m": 400, "n": 600}, amounts(got.ByModel)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	check("not folded")
	if _, err := k.store.FoldSpend(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	check("half folded")
	if _, err := k.store.FoldSpend(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	check("folded")
	k.exec(k.admin, `update spend_days set day = day - 1`)
	if got, err := k.store.SpentToday(t.Context()); err != nil || !got.Total.Zero() || len(got.ByModel) != 0 {
		t.Errorf("yesterday's: %+v, %v", got, err)
	}
	k.exec(k.admin, `insert into spend_changes (task_id, day, sign, unknown, unpriced, not_accepted, workspace, model)
		select gen_random_uuid(), current_date, 1, false, false, false, 'w', 'm' from generate_series(1, 5001)`)
	if got, err := k.store.SpentToday(t.Context()); err != nil || got.Complete || got.Total.Attempts != 5000 {
		t.Errorf("where much is not added up: %v %d %v", got.Complete, got.Total.Attempts, err)
	}
}
