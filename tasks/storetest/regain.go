package storetest

import (
	"time"

	"github.com/fencepost/fencepost/tasks"
)

// recovering settles with the answer that an earlier attempt had made.
func recovering(s tasks.Settlement, version int64) tasks.Settlement {
	s.Call.Recovered = version
	return s
}

// wantUsage wants of a ledger row what call() reports.
func (k *kit) wantUsage(a tasks.Attempt) {
	k.Helper()
	for _, n := range []struct {
		got  *int64
		want int64
	}{{a.InputTokens, 7}, {a.OutputTokens, 11}, {a.PicoUSD, 13}, {a.CachedInputTokens, 3}, {a.ReasoningTokens, 5}} {
		if n.got == nil || *n.got != n.want {
			k.Fatalf("usage of %+v, want that of %+v", a, call())
		}
	}
	if a.ProviderRequestID != "req" || a.PriceVersion != "2026-11-29" || a.WireRequests != 1 || a.EndedAt.IsZero() {
		k.Fatalf("attempt %+v", a)
	}
}

// wantFree wants of a ledger row that it brought the answer of attempt number n and cost nothing.
func (k *kit) wantFree(a tasks.Attempt, n int, version int64) {
	k.Helper()
	for _, part := range []*int64{a.InputTokens, a.OutputTokens, a.PicoUSD, a.CachedInputTokens, a.ReasoningTokens} {
		if part == nil || *part != 0 {
			k.Fatalf("attempt %+v has a cost", a)
		}
	}
	if a.RecoveredAttempt != n || a.Recovered != version || a.PriceVersion != "" || a.ProviderRequestID != "" || a.EndedAt.IsZero() {
		k.Fatalf("attempt %+v, want it to bring the answer of attempt %d", a, n)
	}
}

var regainTests = []test{
	{"I7_a_recovered_answer_is_paid_for_by_the_attempt_that_made_it", func(k *kit) {
		s, first := k.started()
		k.Advance(lease + time.Minute)
		done := recovering(complete(k.take(s), "reply"), 1)
		k.settle(done, tasks.VerdictAccepted, tasks.StatusCompleted)
		for range 2 {
			a := k.ledger(s)
			k.wantUsage(a[0])
			k.wantFree(a[1], 1, 1)
			if a[0].Outcome != tasks.AttemptNotAccepted || a[1].Outcome != tasks.AttemptAccepted || a[1].WireRequests != 1 ||
				a[0].Recovered != 0 || a[0].RecoveredAttempt != 0 {
				k.Fatalf("ledger %+v", a)
			}
			k.wantCost(s, ptr[int64](13), 7, 11, 0)
			// Neither a repeat nor what the first worker says at last is paid for twice.
			again := done
			again.Call = tasks.Call{WireRequests: 9, InputTokens: ptr[int64](1000), PicoUSD: ptr[int64](1000), Recovered: 1}
			k.settle(again, tasks.VerdictAccepted, tasks.StatusCompleted)
			k.settle(complete(first, "late"), tasks.VerdictTerminal, tasks.StatusCompleted)
		}
		k.wantReply(s, "reply")
	}},
	{"I7_what_ended_keeps_its_outcome_when_its_answer_is_recovered", func(k *kit) {
		s, w := k.started()
		k.settle(unsure(w), tasks.VerdictAccepted, tasks.StatusQueued)
		before := k.ledger(s)[0]
		k.wantCost(s, nil, 0, 0, 1)
		k.settle(recovering(complete(k.take(s), "reply"), 1), tasks.VerdictAccepted, tasks.StatusCompleted)
		a := k.ledger(s)
		k.wantUsage(a[0])
		k.wantFree(a[1], 1, 1)
		if a[0].Outcome != tasks.AttemptFailed || a[0].FailureClass != tasks.ClassStopOnUnsure || !a[0].EndedAt.Equal(before.EndedAt) {
			k.Fatalf("attempt %+v, was %+v", a[0], before)
		}
		k.wantCost(s, ptr[int64](13), 7, 11, 0)
	}},
	{"I7_a_known_cost_is_not_written_over", func(k *kit) {
		s, first := k.started()
		k.Advance(lease + time.Minute)
		second := k.take(s)
		k.settle(complete(first, "late"), tasks.VerdictTakenOver, tasks.StatusRunning) // it does answer meanwhile
		done := recovering(complete(second, "reply"), 1)
		done.Call.InputTokens, done.Call.PicoUSD, done.Call.ProviderRequestID = ptr[int64](1000), ptr[int64](1000), "another"
		k.settle(done, tasks.VerdictAccepted, tasks.StatusCompleted)
		a := k.ledger(s)
		k.wantUsage(a[0])
		k.wantFree(a[1], 1, 1)
		k.wantCost(s, ptr[int64](13), 7, 11, 0)
	}},
	{"I7_a_recovered_answer_without_usage_leaves_the_cost_unknown", func(k *kit) {
		s, first := k.started()
		k.Advance(lease + time.Minute)
		failed := recovering(retry(k.take(s), 0), 1)
		failed.Call.PicoUSD, failed.Call.ProviderRequestID = nil, "found"
		k.settle(failed, tasks.VerdictAccepted, tasks.StatusQueued)
		a := k.ledger(s)
		if a[0].ProviderRequestID != "found" || a[0].InputTokens != nil || a[0].PicoUSD != nil || a[0].Outcome != tasks.AttemptUnknown {
			k.Fatalf("attempt %+v", a[0])
		}
		k.wantFree(a[1], 1, 1)
		k.wantCost(s, nil, 0, 0, 1)
		third := k.take(s)
		if third.Lost != nil { // what became of it is known, if not what it cost
			k.Fatalf("lost %+v", third.Lost)
		}
		k.settle(complete(first, "late"), tasks.VerdictTakenOver, tasks.StatusRunning)
		k.wantUsage(k.ledger(s)[0])
	}},
	{"I7_a_recovered_answer_that_is_not_accepted_is_paid_for_too", func(k *kit) {
		s, _ := k.started()
		k.Advance(lease + time.Minute)
		w := k.take(s)
		k.cancel(s, true, tasks.StatusCancelled)
		k.settle(recovering(complete(w, "late"), 1), tasks.VerdictCancelled, tasks.StatusCancelled)
		a := k.ledger(s)
		k.wantUsage(a[0])
		k.wantFree(a[1], 1, 1)
		k.wantCost(s, ptr[int64](13), 7, 11, 0)
	}},
	{"I7_recovered_answers_in_a_batch_with_places", func(k *kit) {
		p := k.owned(0)
		var items []tasks.Submission
		for range 3 {
			s, _ := k.started()
			items = append(items, s)
		}
		k.Advance(lease + time.Minute)
		var done []tasks.Settlement
		for i, c := range k.claimAll(claimer(), refs(items)...) {
			d := at(complete(*c.Work, "reply"), p, int64(i))
			if i != 1 {
				d = recovering(d, 1)
			}
			done = append(done, d)
		}
		for i, out := range k.settleAll(done...) {
			if out.Verdict != tasks.VerdictAccepted || out.Fenced {
				k.Fatalf("item %d: %+v", i, out)
			}
		}
		for i, s := range items {
			a := k.ledger(s)
			if i == 1 {
				k.wantUsage(a[1])
				k.wantCost(s, nil, 7, 11, 1)
				continue
			}
			k.wantUsage(a[0])
			k.wantFree(a[1], 1, 1)
		}
		k.wantKept(p, [2]int64{0, 3})
	}},
	{"only_an_earlier_attempt_can_be_recovered", func(k *kit) {
		s, w := k.started()
		for _, version := range []int64{1, 2, -1} {
			k.settle(recovering(complete(w, "reply"), version), tasks.VerdictInvalid, tasks.StatusRunning)
		}
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "reply")
	}},
	{"the_conversation_that_was_sent_is_said_on_the_task", func(k *kit) {
		want := func(s tasks.Submission, turns, dropped int) {
			k.Helper()
			if t := k.read(s); t.HistoryTurns != turns || t.HistoryDropped != dropped {
				k.Fatalf("task with %d turns and %d dropped, want %d and %d", t.HistoryTurns, t.HistoryDropped, turns, dropped)
			}
		}
		s, first := k.started()
		want(s, 0, 0)
		ended := retry(first, 0)
		ended.Call.HistoryTurns, ended.Call.HistoryDropped = 5, 2
		k.settle(ended, tasks.VerdictAccepted, tasks.StatusQueued)
		want(s, 5, 2)
		second := k.take(s)
		want(s, 5, 2)
		k.Advance(lease + time.Minute)
		done := recovering(complete(k.take(s), "reply"), second.Version)
		done.Call.HistoryTurns, done.Call.HistoryDropped = 6, 3
		k.settle(done, tasks.VerdictAccepted, tasks.StatusCompleted)
		late := complete(second, "late")
		late.Call.HistoryTurns = 9
		k.settle(late, tasks.VerdictTerminal, tasks.StatusCompleted)
		want(s, 6, 3)
		if a := k.ledger(s); a[0].HistoryTurns != 5 || a[0].HistoryDropped != 2 || a[1].HistoryTurns != 0 || a[2].HistoryTurns != 6 || a[2].HistoryDropped != 3 {
			k.Fatalf("ledger %+v", a)
		}
	}},
	{"I6_the_version_of_the_template_is_on_the_work_and_on_the_reply", func(k *kit) {
		s, w := k.started(func(s *tasks.Submission) {
			s.Request.PromptTemplate, s.Request.PromptTemplateVersion = "support", dirty("v7")
		})
		if w.Request.PromptTemplate != "support" || w.Request.PromptTemplateVersion != cleaned("v7") {
			k.Fatalf("request %+v", w.Request)
		}
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		plain, w := k.started(func(s *tasks.Submission) { s.Conversation = "plain" })
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		for s, want := range map[*tasks.Submission]string{&s: cleaned("v7"), &plain: ""} {
			t := k.read(*s)
			said := k.conversation(workspace, s.Conversation)[0].Replies[0]
			if t.PromptTemplate != s.Request.PromptTemplate || t.PromptTemplateVersion != want || t.Reply.PromptTemplateVersion != want ||
				said.PromptTemplateVersion != want {
				k.Fatalf("task %+v, reply %+v, in the conversation %+v; want version %q", t, t.Reply, said, want)
			}
		}
	}},
}
