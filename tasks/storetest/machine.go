package storetest

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/fencepost/fencepost/tasks"
)

// machine drives a store and the model by the same random steps. Its checks beside the model's are the invariants
// themselves, so that a mistake made in both is found all the same.
type machine struct {
	*kit
	m    model
	run  string // in the keys and conversations of this run: many may share one store
	last map[uuid.UUID]tasks.Task
	seen map[string]int // decisions and verdicts, over all runs
	// touched are the tasks of which the next check reads the ledger too.
	touched map[*modelTask]bool
}

// conversations is how many each run has.
const conversations = 2

func (x *machine) talk(n int) string { return fmt.Sprintf("%s %d", x.run, n) }

func runMachine(t *testing.T, newHarness func(t *testing.T) Harness) {
	h := newHarness(t)
	checks := flag.Lookup("rapid.checks").Value // from where alone rapid takes the number of runs
	if before := checks.String(); before == flag.Lookup("rapid.checks").DefValue {
		if err := checks.Set(strconv.Itoa(cmp.Or(h.Runs, 20))); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = checks.Set(before) })
	}
	seen := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		if h.Runs > 0 {
			h = newHarness(t)
		}
		x := &machine{
			kit: &kit{tb: rt, Harness: h, ctx: t.Context()},
			run: newID().String(), last: make(map[uuid.UUID]tasks.Task), seen: seen, touched: make(map[*modelTask]bool),
		}
		rt.Repeat(map[string]func(*rapid.T){
			"submit": x.submitStep, "submit again": x.submitStep,
			"claim": x.claimStep, "claim again": x.claimStep, "claim more": x.claimStep,
			"settle": x.settleStep, "settle again": x.settleStep, "settle more": x.settleStep,
			"fold": func(rt *rapid.T) { x.fold(rapid.IntRange(1, 5).Draw(rt, "fold")) },
			"note": x.noteStep, "renew": x.renewStep, "cancel": x.cancelStep, "advance": x.advanceStep, "": x.check,
		})
	})
	t.Logf("answers: %v", seen)
	if runs, err := strconv.Atoi(checks.String()); err != nil || runs < 500 || t.Failed() {
		return // few runs may miss what is rare
	}
	for _, answer := range []string{
		"claimed", "finished", "leased", "not_due", "handed_off",
		"accepted", "lease_expired", "taken_over", "cancelled", "terminal", "deadline",
		"held", "lost", "noted", "stopped", "recovered",
	} {
		if seen[answer] == 0 { // a machine that never gets there proves nothing of it
			t.Errorf("no run came to %q", answer)
		}
	}
}

// some draws up to n of a list, repeats included, and mostly of those that are alive: the dead soon outnumber them.
func some[V any](rt *rapid.T, list []V, n int, alive func(V) bool) []V {
	if len(list) == 0 {
		rt.Skip("nothing there")
	}
	var living []V
	for _, v := range list {
		if alive(v) {
			living = append(living, v)
		}
	}
	one := rapid.SampledFrom(list)
	if len(living) > 0 {
		one = rapid.OneOf(rapid.SampledFrom(living), rapid.SampledFrom(living), rapid.SampledFrom(living), one)
	}
	return rapid.SliceOfN(one, 1, n).Draw(rt, "some")
}

func (t *modelTask) alive() bool { return !t.status.Terminal() }

func (x *machine) submitStep(rt *rapid.T) {
	var items []tasks.Submission
	for range rapid.IntRange(1, 3).Draw(rt, "items") {
		key := rapid.IntRange(0, 19).Draw(rt, "key")
		items = append(items, submission(func(s *tasks.Submission) {
			s.Key, s.Retention = fmt.Sprintf("%s %d", x.run, key), 1000*deadline
			s.Conversation = x.talk(key % conversations)
			s.Request.Content = rapid.SampledFrom([]string{"one", "one", "other"}).Draw(rt, "content")
			s.Request.Document = tasks.Document{ID: x.run, Version: strconv.Itoa(key % 2)}
			s.MaxAttempts = 1 + key%4
			s.MaxInterruptions = key % 5
			if key%4 == 3 {
				s.OnAmbiguous = tasks.AmbiguousStop
			}
			if key%3 == 0 {
				s.DeadlineAfter = shortDeadline
			}
		}))
	}
	for i, out := range x.submitAll(items...) {
		s := items[i]
		switch t := x.m.find(s.Key); {
		case t == nil:
			if out.Err != nil || out.TaskID != s.TaskID || out.Replayed {
				x.Fatalf("new submission: %+v", out)
			}
			x.m.submit(s)
		case t.Fingerprint == s.Fingerprint:
			if out.Err != nil || out.TaskID != t.TaskID || !out.Replayed {
				x.Fatalf("I6: repeated submission: %+v", out)
			}
			x.m.replay(t)
		default:
			if !errors.Is(out.Err, tasks.ErrKeyReused) || out.TaskID != t.TaskID {
				x.Fatalf("I6: other inputs: %+v", out)
			}
		}
	}
}

func (x *machine) claimStep(rt *rapid.T) {
	items := some(rt, x.m.tasks, 4, (*modelTask).alive)
	var refs []tasks.Ref
	for _, t := range items {
		refs = append(refs, ref(t.Submission))
	}
	by := claimer()
	by.Recovers = rapid.Bool().Draw(rt, "recovers")
	if rapid.IntRange(0, 4).Draw(rt, "hold") == 0 {
		by.Hold = 20 * time.Minute
	}
	for i, got := range x.claimAll(by, refs...) {
		t := items[i]
		x.touched[t] = true
		x.seen[string(got.Decision)]++
		failed := t.status == tasks.StatusFailed
		lost := t.lost()
		want, wait := x.m.claim(by, t)
		switch {
		case want == tasks.DecisionNotDue && t.due <= x.m.now:
			x.seen["held"]++
		case !failed && t.status == tasks.StatusFailed && lost != 0 && t.failure == tasks.ClassStopOnUnsure:
			x.seen["stopped"]++
		}
		if got.Decision != want || got.Status != t.status {
			x.Fatalf("claim: %s of a %s task, want %s of a %s one", got.Decision, got.Status, want, t.status)
		}
		x.near("wait", got.Wait, wait)
		if got.Work == nil {
			continue
		}
		if got.Work.Version != t.version || got.Work.Attempts != t.attempts || got.Work.Interruptions != t.interruptions {
			x.Fatalf("claim: work %+v, want %+v", got.Work, t)
		}
		done := complete(*got.Work, fmt.Sprint("reply ", t.version))
		if x.compareLost(t, lost, got.Work.Lost); lost != 0 && rapid.IntRange(0, 3).Draw(rt, "found") > 0 {
			done.Call.Recovered = lost
		}
		x.m.works = append(x.m.works, &modelWork{task: t, work: *got.Work, done: done})
	}
}

// compareLost wants of the claim of t that it tells of the lost attempt of that version, or of none.
func (x *machine) compareLost(t *modelTask, version int64, got *tasks.Lost) {
	if (got != nil) != (version != 0) {
		x.Fatalf("I7: lost %+v, want version %d", got, version)
	}
	if got == nil {
		return
	}
	x.seen["lost"]++
	want := t.ledger[version]
	if want.ref != "" {
		x.seen["noted"]++
	}
	if got.Version != version || got.Ref != want.ref {
		x.Fatalf("I7: lost %+v, want version %d with %+v", got, version, want)
	}
}

func (x *machine) noteStep(rt *rapid.T) {
	var items []tasks.Note
	for _, w := range some(rt, x.m.works, 4, x.m.holds) {
		note := tasks.Note{Assignment: w.work.Assignment, Ref: rapid.SampledFrom([]string{"", "resp_1", "resp_2"}).Draw(rt, "ref")}
		if a := w.task.ledger[w.work.Version]; a != nil && !a.ended && note.Ref != "" {
			a.ref = note.Ref
		}
		items = append(items, note)
	}
	if err := x.Store.Note(x.ctx, items); err != nil {
		x.Fatalf("note: %v", err)
	}
}

func (x *machine) renewStep(rt *rapid.T) {
	items := some(rt, x.m.works, 4, x.m.holds)
	var assignments []tasks.Assignment
	for _, w := range items {
		assignments = append(assignments, w.work.Assignment)
	}
	out, err := x.Store.Renew(x.ctx, lease, assignments)
	if err != nil || len(out) != len(items) {
		x.Fatalf("renew: %v, %v", out, err)
	}
	for i, w := range items {
		if holds := x.m.holds(w); (out[i] == tasks.RenewalKept) != holds {
			x.Fatalf("I4: renewal %s, but holds the task: %t", out[i], holds)
		} else if holds {
			w.task.lease = x.m.now + lease
		}
	}
}

func (x *machine) settleStep(rt *rapid.T) {
	var works []*modelWork
	var items []tasks.Settlement
	seen := make(map[*modelTask]bool)
	for _, w := range some(rt, x.m.works, 4, x.m.holds) {
		if seen[w.task] { // what a batch decides of one task twice has no order
			continue
		}
		seen[w.task], x.touched[w.task] = true, true
		outcomes := []tasks.Settlement{
			w.done, w.done, complete(w.work, "a second reply"), fail(w.work), release(w.work), unsure(w.work),
			retry(w.work, retryAfter[0]), retry(w.work, retryAfter[1]), retry(w.work, retryAfter[2]),
		}
		s := rapid.SampledFrom(outcomes).Draw(rt, "settle")
		// Only a complete and a release can be told from a first one by what they bring; the others are repeated elsewhere.
		if a := w.task.ledger[w.work.Version]; a != nil && a.outcome == tasks.AttemptFailed &&
			(s.Outcome == tasks.OutcomeRetry || s.Outcome == tasks.OutcomeFail) {
			s = w.done
		}
		s.Handoff = s.Outcome == tasks.OutcomeRetry && rapid.Bool().Draw(rt, "handoff")
		works, items = append(works, w), append(items, s)
	}
	for i, got := range x.settleAll(items...) {
		x.seen[string(got.Verdict)]++
		if want := x.m.settle(works[i], items[i]); got.Verdict != want || got.Status != works[i].task.status {
			x.Fatalf("settle %s of version %d: %+v, want %s and a %s task", items[i].Outcome, items[i].Version, got, want, works[i].task.status)
		}
		if items[i].Call.Recovered != 0 {
			x.seen["recovered"]++
		}
	}
}

func (x *machine) cancelStep(rt *rapid.T) {
	t := some(rt, x.m.tasks, 1, (*modelTask).alive)[0]
	changes := !t.status.Terminal()
	if changes {
		t.status = tasks.StatusCancelled
	}
	x.cancel(t.Submission, changes, t.status)
}

func (x *machine) advanceStep(rt *rapid.T) {
	d := time.Duration(rapid.IntRange(1, 3).Draw(rt, "ticks")) * tick
	x.Advance(d)
	x.m.now += d
}

// near wants a duration that real time may have shortened a little.
func (x *machine) near(what string, got, want time.Duration) {
	if got > want || got < want-5*time.Minute {
		x.Fatalf("%s is %s, want %s", what, got, want)
	}
}

func (x *machine) check(*rapid.T) {
	delayed := x.Delayed()
	read := make(map[uuid.UUID]tasks.Task)
	for n := range conversations {
		page, err := x.Store.Tasks(x.ctx, tasks.Filter{Workspace: workspace, Conversation: x.talk(n)})
		if err != nil {
			x.Fatalf("read tasks: %v", err)
		}
		for _, t := range page {
			read[t.ID] = t
		}
	}
	for _, t := range x.m.tasks {
		got, last := read[t.TaskID], x.last[t.TaskID]
		x.last[t.TaskID] = got
		switch {
		case last.Status.Terminal() && (got.Status != last.Status || got.Version != last.Version || got.Budget != last.Budget ||
			got.FinishedAt.Sub(got.AcceptedAt) != last.FinishedAt.Sub(last.AcceptedAt)): // Advance moves both, or neither
			x.Fatalf("a terminal task changed from %+v to %+v", last, got)
		case got.Version < last.Version:
			x.Fatalf("I4: version went from %d to %d", last.Version, got.Version)
		case got.Attempts > got.MaxAttempts:
			x.Fatalf("I5: attempts of %+v", got)
		case (got.Reply != nil) != (got.Status == tasks.StatusCompleted):
			x.Fatalf("I1: reply %+v of a %s task", got.Reply, got.Status)
		case last.Reply != nil && *got.Reply != *last.Reply:
			x.Fatalf("I1: the reply changed from %+v to %+v", last.Reply, got.Reply)
		}
		x.compare(t, got)
		if x.touched[t] {
			x.compareLedger(t, got)
		}
		due, has := delayed[t.TaskID]
		if has != (t.handoff != nil) {
			x.Fatalf("delayed handoff %t, want %t", has, t.handoff != nil)
		} else if has {
			x.near("delay", due, *t.handoff-x.m.now)
		}
	}
	clear(x.touched)
	x.compareSpend()
}

// compareSpend wants of the run's document what its tasks come to.
func (x *machine) compareSpend() {
	want := tasks.Spend{Saved: x.m.saved}
	for _, t := range x.m.tasks {
		want = want.Add(t.spend())
	}
	for _, by := range []tasks.SpendBy{tasks.SpendByDocument, tasks.SpendByConversation} {
		got := x.spent(tasks.SpendQuery{By: by, Document: x.run})
		var sum tasks.Spend
		for _, r := range got.Rows {
			sum = sum.Add(r.Spend)
		}
		for _, s := range []*tasks.Spend{&got.Total, &sum} {
			if s.CachedInputTokens, s.ReasoningTokens = 0, 0; *s != want {
				x.Fatalf("I7: by %s spent\n%+v, want\n%+v", by, *s, want)
			}
		}
	}
}

// compare wants of the task what the model says.
func (x *machine) compare(t *modelTask, got tasks.Task) {
	if got.Status != t.status || got.Version != t.version || got.Attempts != t.attempts || got.Interruptions != t.interruptions {
		x.Fatalf("the task is %+v, want %s, version %d, attempts %d, interruptions %d", got, t.status, t.version, t.attempts, t.interruptions)
	}
	if t.status == tasks.StatusFailed && (got.Failure == nil || got.Failure.Class != t.failure) {
		x.Fatalf("failure %+v, want %s", got.Failure, t.failure)
	}
	cost := t.cost()
	if c := got.Cost; (c.PicoUSD == nil) != (cost.PicoUSD == nil) || c.PicoUSD != nil && *c.PicoUSD != *cost.PicoUSD ||
		c.InputTokens != cost.InputTokens || c.OutputTokens != cost.OutputTokens || c.UnknownAttempts != cost.UnknownAttempts {
		x.Fatalf("I7: cost %+v, want %+v", c, cost)
	}
}

func (x *machine) compareLedger(t *modelTask, got tasks.Task) {
	accepted := 0
	ledger := x.ledger(t.Submission)
	for _, a := range ledger {
		want := t.ledger[a.Version]
		if want == nil || a.Outcome != want.outcome || a.EndedAt.IsZero() == want.ended || a.WireRequests != want.call.WireRequests ||
			a.Recovered != want.call.Recovered || !same(a.InputTokens, want.call.InputTokens) || !same(a.PicoUSD, want.call.PicoUSD) {
			x.Fatalf("I7: attempt %+v, want %+v", a, want)
		}
		if a.Outcome != tasks.AttemptAccepted {
			continue
		}
		if accepted++; got.Reply == nil || got.Reply.ID != want.reply {
			x.Fatalf("I1: reply %+v, want %s", got.Reply, want.reply)
		}
	}
	if accepted > 1 || (accepted == 1) != (got.Reply != nil) {
		x.Fatalf("I1: %d attempts accepted, reply %+v", accepted, got.Reply)
	}
	if len(ledger) != got.Attempts {
		x.Fatalf("I5: %d rows in the ledger of %+v", len(ledger), got)
	}
}

// same reports whether both numbers are unknown, or equal.
func same(a, b *int64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
