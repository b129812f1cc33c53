package storetest

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fencepost/fencepost/tasks"
)

func (k *kit) spending() tasks.Spending {
	k.Helper()
	s, ok := k.Store.(tasks.Spending)
	if !ok {
		k.Fatalf("%T sums no ledger", k.Store)
	}
	return s
}

func (k *kit) spent(q tasks.SpendQuery) tasks.Spent {
	k.Helper()
	if q.Workspace == "" {
		q.Workspace = workspace
	}
	out, err := k.spending().Spend(k.ctx, q)
	if err != nil {
		k.Fatalf("spend: %v", err)
	}
	return out
}

func (k *kit) fold(limit int) int {
	k.Helper()
	n, err := k.spending().FoldSpend(k.ctx, limit)
	if err != nil || n < 0 || n > limit {
		k.Fatalf("folded %d of at most %d: %v", n, limit, err)
	}
	return n
}

func (k *kit) foldAll() {
	k.Helper()
	for k.fold(3) == 3 {
	}
}

// spendOf is what an attempt comes to, and false while it is under way.
func spendOf(t tasks.Task, a tasks.Attempt, ledger []tasks.Attempt) (x tasks.Spend, counts bool) {
	if a.EndedAt.IsZero() && t.Status == tasks.StatusRunning && a.Version == t.Version {
		return x, false
	}
	number := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	x = tasks.Spend{
		Attempts: 1, InputTokens: number(a.InputTokens), CachedInputTokens: number(a.CachedInputTokens),
		OutputTokens: number(a.OutputTokens), ReasoningTokens: number(a.ReasoningTokens), PicoUSD: number(a.PicoUSD),
	}
	if a.PicoUSD == nil && (a.EndedAt.IsZero() || a.WireRequests > 0) {
		if a.InputTokens == nil && a.OutputTokens == nil {
			x.UnknownAttempts = 1
		} else {
			x.UnpricedAttempts = 1
		}
	}
	useful := a.Outcome == tasks.AttemptAccepted || a.Outcome == tasks.AttemptUnknown ||
		slices.ContainsFunc(ledger, func(later tasks.Attempt) bool {
			return later.Recovered == a.Version && later.Outcome == tasks.AttemptAccepted
		})
	if !useful && (x.PicoUSD > 0 || x.InputTokens > 0 || x.OutputTokens > 0) {
		x.NotAccepted = tasks.SpendPart{Attempts: 1, PicoUSD: x.PicoUSD}
	}
	return x, true
}

// wantSpent wants of the tasks' workspace, by whatever sums are made, what their ledgers come to, and these savings.
func (k *kit) wantSpent(saved tasks.SpendSaved, all ...tasks.Submission) {
	k.Helper()
	want := make(map[tasks.SpendBy]map[tasks.SpendKey]tasks.Spend)
	for _, by := range tasks.SpendBys {
		want[by] = make(map[tasks.SpendKey]tasks.Spend)
	}
	total := tasks.Spend{Saved: saved}
	for _, s := range all {
		t, ledger := k.read(s), k.ledger(s)
		for _, a := range ledger {
			x, counts := spendOf(t, a, ledger)
			if !counts {
				continue
			}
			for by, key := range map[tasks.SpendBy]tasks.SpendKey{
				tasks.SpendByDocument:     {Document: t.Document},
				tasks.SpendByModel:        {Model: a.Model},
				tasks.SpendByConversation: {Conversation: t.Conversation},
			} {
				want[by][key] = want[by][key].Add(x)
			}
			total = total.Add(x)
		}
	}
	for by, sums := range want {
		got := k.spent(tasks.SpendQuery{Workspace: all[0].Workspace, By: by, Limit: 1000})
		if got.Total != total {
			k.Fatalf("I7: by %s in all\n%+v, want\n%+v", by, got.Total, total)
		}
		var whole tasks.Spend
		rows := make(map[tasks.SpendKey]tasks.Spend)
		for _, r := range got.Rows {
			whole = whole.Add(r.Spend)
			r.Saved = tasks.SpendSaved{} // has the model of the ledger's end
			if rows[r.SpendKey] = r.Spend; by != tasks.SpendByDay && r.Spend != sums[r.SpendKey] {
				k.Fatalf("I7: %+v\n%+v, want\n%+v", r.SpendKey, r.Spend, sums[r.SpendKey])
			}
		}
		if whole != total || got.Next != nil {
			k.Fatalf("I7: by %s the sums come to\n%+v, want\n%+v", by, whole, total)
		}
		for key := range sums {
			if _, there := rows[key]; !there {
				k.Fatalf("I7: no sum of %+v", key)
			}
		}
	}
}

// wantSums is wantSpent of what is not added up yet, of a part of it, and of all.
func (k *kit) wantSums(saved tasks.SpendSaved, all ...tasks.Submission) {
	k.Helper()
	k.wantSpent(saved, all...)
	k.fold(1)
	k.wantSpent(saved, all...)
	k.foldAll()
	k.wantSpent(saved, all...)
}

// total wants the workspace's whole sum, whether it is folded or not.
func (k *kit) total(want tasks.Spend) {
	k.Helper()
	for range 2 {
		if got := k.spent(tasks.SpendQuery{By: tasks.SpendByDay}).Total; got != want {
			k.Fatalf("spent\n%+v, want\n%+v", got, want)
		}
		k.foldAll()
	}
}

func about(id, version string) func(*tasks.Submission) {
	return func(s *tasks.Submission) { s.Request.Document = tasks.Document{ID: id, Version: version} }
}

// once is what call() comes to.
func once() tasks.Spend {
	return tasks.Spend{Attempts: 1, InputTokens: 7, CachedInputTokens: 3, OutputTokens: 11, ReasoningTokens: 5, PicoUSD: 13}
}

func wasted(x tasks.Spend) tasks.Spend {
	x.NotAccepted = tasks.SpendPart{Attempts: x.Attempts, PicoUSD: x.PicoUSD}
	return x
}

var spendTests = []test{
	{"I7_spend_is_the_sum_of_the_ledger_however_attempts_end", func(k *kit) {
		none := tasks.SpendSaved{}
		var all []tasks.Submission
		start := func(change ...func(*tasks.Submission)) (tasks.Submission, tasks.Work) {
			s, w := k.started(change...)
			all = append(all, s)
			return s, w
		}
		ends := func(w tasks.Work) []tasks.Settlement {
			unpriced, unsent, paid := complete(w, "reply"), retry(w, 0), fail(w)
			unpriced.Call.PicoUSD, unsent.Call, paid.Call = nil, tasks.Call{}, call()
			return append(everyOutcome(w), unpriced, unsent, paid, unheard(w))
		}
		for n := range ends(tasks.Work{}) {
			_, w := start(about("d", "1"))
			k.wantSums(none, all...)
			k.settleAll(ends(w)[n])
		}
		k.wantSums(none, all...)
		// The same late: the task has been taken over, cancelled, failed or completed meanwhile, or only its lease is over.
		for n := range ends(tasks.Work{}) {
			all = nil
			var works []tasks.Work
			for i := range 5 {
				_, w := start(in("w"+strconv.Itoa(n)), about("d", "2"), func(s *tasks.Submission) {
					if i == 2 {
						s.MaxInterruptions = 0
					}
				})
				works = append(works, w)
			}
			k.cancel(all[0], true, tasks.StatusCancelled)
			k.Advance(lease + time.Minute)
			k.wantSums(none, all...)
			k.take(all[1])
			k.claim(all[2])
			k.settleAll(complete(k.take(all[3]), "reply"))
			k.wantSums(none, all...)
			for _, w := range works {
				k.settleAll(ends(w)[n])
				k.settleAll(ends(w)[0])
			}
			k.wantSums(none, all...)
			k.claim(all[4]) // of which the refused settle has ended the attempt
			k.wantSums(none, all...)
		}
	}},
	{"I7_an_attempt_that_is_not_heard_of_is_unknown_until_it_is", func(k *kit) {
		s, first := k.started()
		k.total(tasks.Spend{}) // it is under way: nobody knows
		k.Advance(lease + time.Minute)
		k.total(tasks.Spend{})
		second := k.take(s)
		k.total(tasks.Spend{Attempts: 1, UnknownAttempts: 1})
		k.settle(complete(second, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.total(once().Add(tasks.Spend{Attempts: 1, UnknownAttempts: 1}))
		if models := k.spent(tasks.SpendQuery{By: tasks.SpendByModel}); len(models.Rows) != 2 || models.Rows[0].Model != "model" || models.Rows[0].UnknownAttempts != 1 {
			k.Fatalf("by model %+v", models.Rows)
		}
		late := complete(first, "late")
		for range 2 {
			k.settle(late, tasks.VerdictTerminal, tasks.StatusCompleted)
			k.total(once().Add(wasted(once())))
		}
		if models := k.spent(tasks.SpendQuery{By: tasks.SpendByModel}); len(models.Rows) != 1 || models.Rows[0].Model != "model-2026" {
			k.Fatalf("by model %+v", models.Rows)
		}
		k.wantSums(tasks.SpendSaved{}, s)
	}},
	{"I7_an_attempt_is_unknown_when_its_task_is_stopped_while_no_calls_are_made", func(k *kit) {
		s, _ := k.started(stops)
		k.Advance(lease + time.Minute)
		by := claimer()
		by.Hold = time.Minute
		if c := k.claimAll(by, ref(s))[0]; c.Status != tasks.StatusFailed {
			k.Fatalf("claim %+v", c)
		}
		k.total(tasks.Spend{Attempts: 1, UnknownAttempts: 1})
	}},
	{"I7_what_is_settled_with_its_place_is_summed_too", func(k *kit) {
		p := k.owned(0)
		s, w := k.started()
		stale, late := k.started()
		k.cancel(stale, true, tasks.StatusCancelled)
		k.settlePlaced(at(complete(w, "reply"), p, 0), tasks.VerdictAccepted, tasks.StatusCompleted, false)
		k.settlePlaced(at(complete(late, "late"), p, 1), tasks.VerdictCancelled, tasks.StatusCancelled, false)
		k.total(once().Add(wasted(once())))
		k.wantSums(tasks.SpendSaved{}, s, stale)
	}},
	{"I7_a_recovered_answer_was_not_paid_for_in_vain", func(k *kit) {
		for _, first := range []string{"unheard", "heard before", "heard after", "told nothing, then heard"} {
			s, w := k.started(in(first))
			s.Workspace = first
			k.Advance(lease + time.Minute)
			again := k.take(s)
			total := func(want tasks.Spend) {
				k.Helper()
				for range 2 {
					if got := k.spent(tasks.SpendQuery{Workspace: first, By: tasks.SpendByModel}).Total; got != want {
						k.Fatalf("%s: spent\n%+v, want\n%+v", first, got, want)
					}
					k.foldAll()
				}
			}
			if first == "heard before" {
				k.settleAll(complete(w, "late"))
				total(wasted(once()))
			}
			done := recovering(complete(again, "reply"), w.Version)
			if first == "told nothing, then heard" {
				done.Call = tasks.Call{WireRequests: 1, Recovered: w.Version}
			}
			k.settle(done, tasks.VerdictAccepted, tasks.StatusCompleted)
			if first == "told nothing, then heard" {
				total(tasks.Spend{Attempts: 2, UnknownAttempts: 1})
			}
			if first != "unheard" {
				k.settleAll(complete(w, "late"))
			}
			total(once().Add(tasks.Spend{Attempts: 1}))
		}
	}},
	{"I7_a_recovered_answer_that_was_refused_is_paid_for_in_vain", func(k *kit) {
		s, w := k.started()
		k.Advance(lease + time.Minute)
		again := k.take(s)
		k.cancel(s, true, tasks.StatusCancelled)
		k.total(tasks.Spend{Attempts: 2, UnknownAttempts: 2})
		k.settle(recovering(complete(again, "reply"), w.Version), tasks.VerdictCancelled, tasks.StatusCancelled)
		k.total(wasted(once()).Add(tasks.Spend{Attempts: 1}))
		k.wantSums(tasks.SpendSaved{}, s)
	}},
	{"a_replay_of_a_task_that_has_ended_saves_what_it_cost", func(k *kit) {
		s, w := k.started(about("d", "1"))
		again := func(times int) {
			var items []tasks.Submission
			for range times {
				repeat := s
				repeat.TaskID, repeat.MessageID = newID(), newID()
				items = append(items, repeat)
			}
			for _, out := range k.submitAll(items...) {
				if !out.Replayed || out.TaskID != s.TaskID {
					k.Fatalf("replay: %+v", out)
				}
			}
		}
		again(1) // it waits for the same call
		k.settle(costing(retry(w, 0), 2), tasks.VerdictAccepted, tasks.StatusQueued)
		k.settle(complete(k.take(s), "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantSums(tasks.SpendSaved{}, s)
		again(1)
		k.submitAll(s) // a repeat by the same ids is the same submission
		k.wantSums(tasks.SpendSaved{Replays: 1, PicoUSD: 15}, s)
		again(2)
		k.wantSums(tasks.SpendSaved{Replays: 3, PicoUSD: 45}, s)
		if other := k.submitAll(submission(func(o *tasks.Submission) { o.Key = s.Key }))[0]; other.Err == nil {
			k.Fatalf("other inputs: %+v", other)
		}
		row := k.spent(tasks.SpendQuery{By: tasks.SpendByModel}).Rows
		if len(row) != 2 || row[1].Model != "model-2026" || row[1].Saved != (tasks.SpendSaved{Replays: 3, PicoUSD: 45}) {
			k.Fatalf("by model %+v", row)
		}
		of := k.spent(tasks.SpendQuery{By: tasks.SpendByDocument, Document: "d"})
		if len(of.Rows) != 1 || of.Total.Saved != row[1].Saved || of.Rows[0].Saved != row[1].Saved {
			k.Fatalf("of the document %+v", of)
		}
		cancelled := k.submit()
		k.cancel(cancelled, true, tasks.StatusCancelled)
		repeat := cancelled
		repeat.TaskID, repeat.MessageID = newID(), newID()
		k.submitAll(repeat)
		k.wantSums(tasks.SpendSaved{Replays: 4, PicoUSD: 45}, s, cancelled)
	}},
	{"spend_by_documents_models_and_conversations_in_pages", func(k *kit) {
		long := strings.Repeat("lång ", 200)
		documents := []tasks.Document{{}, {ID: "B", Version: "2"}, {ID: "a", Version: "1"}, {ID: "a", Version: "10"}, {ID: "a", Version: "2"}, {ID: "é"}, {ID: long, Version: "1"}, {ID: "m" + long, Version: long}}
		for n, d := range documents {
			first, _ := utf8.DecodeRuneInString(d.ID + " ")
			for range n + 1 {
				_, w := k.started(about(d.ID, d.Version), func(s *tasks.Submission) { s.Conversation = string(first) })
				done := complete(w, "reply")
				if d.ID == long {
					done.Call.Model = long
				}
				k.settle(done, tasks.VerdictAccepted, tasks.StatusCompleted)
			}
			if n == 3 {
				k.foldAll() // some are folded, some are not, some are both
			}
		}
		other, w := k.started(in("w2"), about("a", "1"))
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		for range 2 {
			for _, limit := range []int{1, 3, 100} {
				for by, want := range map[tasks.SpendBy][]int64{
					tasks.SpendByDocument: {1, 2, 3, 4, 5, 7, 8, 6}, tasks.SpendByModel: {7, 29},
					tasks.SpendByConversation: {1, 2, 12, 7, 8, 6}, tasks.SpendByDay: {36},
				} {
					var got []int64
					for q := (tasks.SpendQuery{By: by, Limit: limit}); ; {
						page := k.spent(q)
						if len(page.Rows) > limit || page.Total.Attempts != 36 {
							k.Fatalf("a page of %d: %+v", limit, page)
						}
						for _, r := range page.Rows {
							got = append(got, r.Attempts)
						}
						if q.After = page.Next; q.After == nil {
							break
						}
					}
					if !slices.Equal(got, want) {
						k.Fatalf("by %s in pages of %d: %v, want %v", by, limit, got, want)
					}
				}
			}
			for by, want := range map[tasks.SpendBy][]int64{
				tasks.SpendByDocument: {3, 4, 5}, tasks.SpendByModel: {12}, tasks.SpendByConversation: {12}, tasks.SpendByDay: {12},
			} {
				of := k.spent(tasks.SpendQuery{By: by, Document: "a"})
				var got []int64
				for _, r := range of.Rows {
					got = append(got, r.Attempts)
				}
				if !slices.Equal(got, want) || of.Total.Attempts != 12 {
					k.Fatalf("document a by %s: %+v, want %v", by, of, want)
				}
			}
			if of := k.spent(tasks.SpendQuery{By: tasks.SpendByDocument, Document: long}); of.Total.Attempts != 7 || len(of.Rows) != 1 {
				k.Fatalf("a document with a long name: %+v", of)
			}
			k.foldAll()
		}
		k.wantIsolated(other)
	}},
	{"spend_of_a_period", func(k *kit) {
		s, w := k.started(about("d", "1"))
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		today := k.ledger(s)[0].StartedAt.UTC().Truncate(24 * time.Hour)
		day := 24 * time.Hour
		for range 2 {
			for _, by := range tasks.SpendBys {
				for _, document := range []string{"", "d"} {
					for _, c := range []struct {
						from, to time.Time
						want     int64
					}{
						{today, today.Add(day), 1}, {today, time.Time{}, 1}, {time.Time{}, today.Add(day), 1}, {today.Add(-day), today.Add(2 * day), 1},
						{today.Add(day), time.Time{}, 0}, {time.Time{}, today, 0}, {today, today, 0},
					} {
						got := k.spent(tasks.SpendQuery{By: by, Document: document, From: c.from, To: c.to})
						if got.Total.Attempts != c.want || int64(len(got.Rows)) != c.want {
							k.Fatalf("by %s from %v to %v: %+v, want %d", by, c.from, c.to, got, c.want)
						}
						if by == tasks.SpendByDay && c.want == 1 && !got.Rows[0].Day.Equal(today) {
							k.Fatalf("day %v, want %v", got.Rows[0].Day, today)
						}
					}
				}
			}
			k.foldAll()
		}
		for _, bad := range []tasks.SpendQuery{{By: "worker"}, {By: tasks.SpendByDay, From: today.Add(time.Hour)}, {By: tasks.SpendByDay, To: today.Add(time.Second)}} {
			bad.Workspace = workspace
			_, err := k.spending().Spend(k.ctx, bad)
			k.wantError(err, tasks.ErrInvalid)
		}
	}},
	{"what_a_server_makes_up_does_not_stop_the_sums", func(k *kit) {
		for range 3 {
			_, w := k.started()
			done := complete(w, "reply")
			done.Call.InputTokens, done.Call.PicoUSD = ptr[int64](math.MaxInt64), ptr[int64](math.MaxInt64)
			k.settle(done, tasks.VerdictAccepted, tasks.StatusCompleted)
			k.foldAll()
		}
		got := k.spent(tasks.SpendQuery{By: tasks.SpendByModel}).Total
		if got.Attempts != 3 || got.OutputTokens != 33 || got.InputTokens < 9e18 || got.PicoUSD < 9e18 {
			k.Fatalf("spent %+v", got)
		}
	}},
	{"sums_outlive_their_tasks", func(k *kit) {
		s, w := k.started(about("d", "1"))
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.foldAll()
		k.Advance(1000 * time.Hour)
		k.wantSwept(tasks.SweepConfig{Tasks: time.Hour}, 1, 1)
		if !k.gone(s) {
			k.Fatalf("the task is still there")
		}
		k.total(once())
		if of := k.spent(tasks.SpendQuery{By: tasks.SpendByConversation, Document: "d"}); len(of.Rows) != 1 || of.Rows[0].Conversation != "c" {
			k.Fatalf("of the document %+v", of)
		}
	}},
	{"sums_are_right_while_they_are_added_up", func(k *kit) {
		const each = 30
		var items []tasks.Submission
		for range 4 * each {
			items = append(items, submission(about("d", "1")))
		}
		k.submitAll(items...)
		together(8, func(i int) {
			if i >= 4 {
				for range each {
					k.fold(7)
					if got := k.spent(tasks.SpendQuery{By: tasks.SpendByDocument}); len(got.Rows) > 0 && got.Rows[0].Spend != got.Total {
						k.Errorf("one sum is\n%+v, the whole\n%+v", got.Rows[0].Spend, got.Total)
					}
				}
				return
			}
			for _, s := range items[i*each : (i+1)*each] {
				if out := k.settleAll(complete(k.take(s), "reply"))[0]; out.Verdict != tasks.VerdictAccepted {
					k.Errorf("settle: %+v", out)
				}
			}
		})
		k.wantSums(tasks.SpendSaved{}, items...)
	}},
}

// wantIsolated wants of another workspace only its own attempt.
func (k *kit) wantIsolated(s tasks.Submission) {
	k.Helper()
	for _, by := range tasks.SpendBys {
		for _, q := range []tasks.SpendQuery{{Workspace: s.Workspace, By: by}, {Workspace: s.Workspace, By: by, Document: s.Request.Document.ID}} {
			if got := k.spent(q); len(got.Rows) != 1 || got.Total != once() {
				k.Fatalf("I8: %+v", got)
			}
		}
		for _, name := range []string{"nobody", "", "\x00" + workspace} {
			got, err := k.spending().Spend(k.ctx, tasks.SpendQuery{Workspace: name, By: by})
			if err != nil || len(got.Rows) != 0 || !got.Total.Zero() {
				k.Fatalf("I8: %q has spent %+v, %v", name, got, err)
			}
		}
	}
}
