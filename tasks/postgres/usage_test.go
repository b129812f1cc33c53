package postgres

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func TestFirstIDs(t *testing.T) {
	now := time.Now()
	id := uuid.Must(uuid.NewV7())
	for _, c := range []struct {
		at    time.Time
		after bool
	}{{now.Add(-time.Minute), true}, {now.Add(time.Minute), false}, {time.Unix(-1, 0), true}} {
		first := firstID(c.at)
		if got := slices.Compare(id[:], first[:]) > 0; got != c.after {
			t.Errorf("%v stands after %v: %t", id, c.at, got)
		}
	}
}

// TestI7_UsageOfAPeriod sums what began in it, of tasks that were accepted long before, too; what is not known is counted
// as such, and what cost nothing is not.
func TestI7_UsageOfAPeriod(t *testing.T) {
	k := newKit(t)
	works := k.claim(time.Hour, k.submit(8)...)
	used := func(w tasks.Work, model string, input, output int64, price *int64) tasks.Settlement {
		s := complete(w, "reply")
		s.Call = tasks.Call{WireRequests: 1, ProviderRequestID: "req-" + model, Model: model, InputTokens: &input, OutputTokens: &output, CachedInputTokens: &output, PicoUSD: price}
		return s
	}
	price := int64(5)
	refused := used(works[3], "a", 0, 0, new(int64))
	refused.Outcome = tasks.OutcomeRetry
	unheard := used(works[4], "a", 0, 0, nil)
	unheard.Outcome, unheard.Call.InputTokens, unheard.Call.OutputTokens = tasks.OutcomeRetry, nil, nil
	settled, err := k.store.Settle(t.Context(), []tasks.Settlement{
		used(works[0], "a", 10, 1, &price), used(works[1], "a", 20, 2, nil), used(works[2], "b", 30, 3, &price), refused, unheard, used(works[6], "a", 40, 4, &price),
	})
	if err != nil || slices.ContainsFunc(settled, func(s tasks.Settled) bool { return s.Verdict != tasks.VerdictAccepted }) {
		t.Fatal(settled, err)
	}
	// One began before the period; one of another provider in it.
	k.exec(k.admin, `update attempts set started_at = started_at - interval '2 days' where task_id = $1`, works[6].TaskID)
	k.exec(k.admin, `update attempts set provider = 'other' where task_id = $1`, works[7].TaskID)

	var began time.Time
	if err := k.admin.QueryRow(t.Context(), `select min(started_at) from attempts where task_id = $1`, works[0].TaskID).Scan(&began); err != nil {
		t.Fatal(err)
	}
	today := began.UTC().Truncate(24 * time.Hour)
	p := tasks.Period{From: today, To: today.AddDate(0, 0, 1), Provider: "sim", Reach: 24 * time.Hour}
	days, err := k.store.UsageByDay(t.Context(), p)
	want := []tasks.DayUsage{
		{Day: today, Model: "a", Requests: 2, InputTokens: 30, CachedInputTokens: 3, OutputTokens: 3, PicoUSD: 5, Unpriced: 1, Unknown: 1},
		{Day: today, Model: "b", Requests: 1, InputTokens: 30, CachedInputTokens: 3, OutputTokens: 3, PicoUSD: 5},
		{Day: today, Model: "model", Unknown: 1}, // still running
	}
	if diff := cmp.Diff(want, days); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	var seen []tasks.AttemptUsage
	err = k.store.EachUsage(t.Context(), p, func(a tasks.AttemptUsage) error {
		seen = append(seen, a)
		return nil
	})
	slices.SortFunc(seen, func(a, b tasks.AttemptUsage) int { return slices.Compare(a.TaskID[:], b.TaskID[:]) })
	if err != nil || len(seen) != 3 || seen[0].TaskID != works[0].TaskID || seen[0].RequestID != "req-a" || *seen[0].PicoUSD != 5 || seen[1].PicoUSD != nil ||
		seen[2].InputTokens != 30 || seen[2].CachedInputTokens != 3 || seen[2].Attempt != 1 {
		t.Errorf("%+v, %v", seen, err)
	}
	stop := errors.New("enough")
	if err := k.store.EachUsage(t.Context(), p, func(tasks.AttemptUsage) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v, want %v", err, stop)
	}
	unknown, err := k.store.UnknownUsage(t.Context(), p, 10)
	if err != nil || len(unknown) != 2 || unknown[0].TaskID != works[4].TaskID || unknown[1].TaskID != works[5].TaskID {
		t.Errorf("unknown %+v, %v", unknown, err)
	}
	if unknown, err = k.store.UnknownUsage(t.Context(), p, 1); err != nil || len(unknown) != 1 {
		t.Errorf("unknown %+v, %v; want the first", unknown, err)
	}
	p.Provider = ""
	if days, err = k.store.UsageByDay(t.Context(), p); err != nil || len(days) != 3 || days[2].Unknown != 2 {
		t.Errorf("all providers: %+v, %v", days, err)
	}
	p.From, p.To = today.AddDate(0, 0, -3), today
	if days, err = k.store.UsageByDay(t.Context(), p); err != nil || len(days) != 0 {
		// Its task is younger than the period by its id, which no task with an honest clock is.
		t.Errorf("what began before its task: %+v, %v", days, err)
	}
}

func TestI7_TheUsageOfOldTasksIsFoundWithinReach(t *testing.T) {
	k := newKit(t)
	old := submission("c")
	old.TaskID = firstID(time.Now().Add(-40 * time.Hour))
	if out, err := k.store.Submit(t.Context(), []tasks.Submission{old}); err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	k.claim(time.Hour, tasks.Ref{TaskID: old.TaskID, Workspace: "w"})
	p := tasks.Period{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}
	for reach, want := range map[time.Duration]int{40 * time.Hour: 1, 30 * time.Hour: 0} {
		p.Reach = reach
		if unknown, err := k.store.UnknownUsage(t.Context(), p, 10); err != nil || len(unknown) != want {
			t.Errorf("within %v: %+v, %v; want %d", reach, unknown, err, want)
		}
	}
}
