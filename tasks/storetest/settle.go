package storetest

import (
	"github.com/fencepost/fencepost/tasks"
)

var settleTests = []test{
	{"I1_an_accepted_reply_is_the_saved_response", func(k *kit) {
		s, w := k.started()
		done := complete(w, "reply")
		k.settle(done, tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "reply")
		t := k.read(s)
		if r := t.Reply; r.ID != done.Candidate.ReplyID || r.TaskID != s.TaskID || r.Model != "model-2026" || r.FinishReason != "stop" ||
			r.Attempt != 1 || r.SavedAt.IsZero() {
			k.Fatalf("reply %+v", r)
		}
		if r := k.conversation(workspace, "c")[0].Replies[0]; r.ID != done.Candidate.ReplyID || r.TaskID != s.TaskID || r.Model != "model-2026" || r.SavedAt.IsZero() {
			k.Fatalf("reply in the conversation %+v", r)
		}
		a := k.ledger(s)
		if len(a) != 1 || a[0].Outcome != tasks.AttemptAccepted || a[0].EndedAt.IsZero() || a[0].FailureClass != "" || a[0].WireRequests != 1 ||
			a[0].ProviderRequestID != "req" || a[0].Model != "model-2026" || *a[0].InputTokens != 7 || *a[0].OutputTokens != 11 || *a[0].PicoUSD != 13 ||
			*a[0].CachedInputTokens != 3 || *a[0].ReasoningTokens != 5 || a[0].PriceVersion != "2026-11-29" {
			k.Fatalf("ledger %+v", a)
		}
		k.wantClaim(s, tasks.DecisionFinished, tasks.StatusCompleted)
	}},
	{"I1_a_repeat_is_accepted_and_changes_nothing", func(k *kit) {
		s, w := k.started()
		done := complete(w, "reply")
		again := done
		again.Call = tasks.Call{WireRequests: 9, PicoUSD: ptr[int64](1e12)}
		k.settle(done, tasks.VerdictAccepted, tasks.StatusCompleted)
		k.settle(again, tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "reply")
		if a := k.ledger(s); len(a) != 1 || a[0].Outcome != tasks.AttemptAccepted || a[0].WireRequests != 1 || *a[0].PicoUSD != 13 {
			k.Fatalf("ledger %+v", a)
		}
		failed, w := k.started()
		for range 2 {
			k.settle(fail(w), tasks.VerdictAccepted, tasks.StatusFailed)
		}
		k.wantFailed(failed, "permanent")
		retried, w := k.started()
		for range 2 {
			k.settle(retry(w, 0), tasks.VerdictAccepted, tasks.StatusQueued)
		}
		if t := k.read(retried); t.Attempts != 1 || t.Failure == nil || t.Failure.Class != "overloaded" || t.Failure.Attempt != 1 {
			k.Fatalf("task %+v", t)
		}
	}},
	{"I1_a_settled_assignment_settles_nothing_else", func(k *kit) {
		s, w := k.started()
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		for _, other := range []tasks.Settlement{complete(w, "another"), retry(w, 0), fail(w)} {
			k.settle(other, tasks.VerdictTerminal, tasks.StatusCompleted)
		}
		k.wantReply(s, "reply")
		if t := k.read(s); t.Failure != nil {
			k.Fatalf("task %+v", t)
		}
		failed, w := k.started()
		k.settle(fail(w), tasks.VerdictAccepted, tasks.StatusFailed)
		k.settle(complete(w, "reply"), tasks.VerdictTerminal, tasks.StatusFailed)
		k.wantFailed(failed, "permanent")
	}},
	{"I1_the_same_settle_twice_in_a_batch", func(k *kit) {
		s, w := k.started()
		done := complete(w, "reply")
		for i, out := range k.settleAll(done, done) {
			if out.Verdict != tasks.VerdictAccepted || out.Status != tasks.StatusCompleted {
				k.Fatalf("item %d: %+v", i, out)
			}
		}
		k.wantReply(s, "reply")
	}},
	{"failed_for_good", func(k *kit) {
		s, w := k.started()
		k.settle(fail(w), tasks.VerdictAccepted, tasks.StatusFailed)
		if t := k.wantFailed(s, "permanent"); t.Failure.Message != "no such model" || t.Failure.Attempt != 1 {
			k.Fatalf("failure %+v", t.Failure)
		}
		if a := k.ledger(s); a[0].Outcome != tasks.AttemptFailed || a[0].FailureClass != "permanent" || a[0].EndedAt.IsZero() {
			k.Fatalf("ledger %+v", a)
		}
		k.wantClaim(s, tasks.DecisionFinished, tasks.StatusFailed)
	}},
	{"the_reply_of_a_second_attempt", func(k *kit) {
		s, w := k.started()
		k.settle(retry(w, 0), tasks.VerdictAccepted, tasks.StatusQueued)
		k.settle(complete(k.take(s), "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "reply")
		if r := k.read(s).Reply; r.Attempt != 2 {
			k.Fatalf("reply %+v", r)
		}
		a := k.ledger(s)
		if len(a) != 2 || a[0].Outcome != tasks.AttemptFailed || a[0].FailureClass != "overloaded" || a[1].Outcome != tasks.AttemptAccepted || a[1].Number != 2 {
			k.Fatalf("ledger %+v", a)
		}
	}},
	{"settle_of_an_unknown_task", func(k *kit) {
		s, w := k.started()
		unknown := complete(w, "x")
		unknown.TaskID = newID()
		if out := k.settleAll(unknown)[0]; out.Verdict != tasks.VerdictMissing || !out.Ended() {
			k.Fatalf("%+v", out)
		}
		k.settleAll()
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "reply")
	}},
}
