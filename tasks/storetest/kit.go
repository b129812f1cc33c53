package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

// The terms of every test that does not set its own. Real time passes too while a test runs on Postgres, so they are far
// apart: nothing comes due by itself.
const (
	lease     = time.Hour
	parkMax   = time.Hour
	deadline  = 24 * time.Hour
	workspace = "w"
)

// testing.TB cannot be implemented by rapid.T, which is why this is not it.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// kit is a test's harness with calls of one item that fail the test when the call fails.
type kit struct {
	tb
	Harness
	ctx context.Context
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// submission is a fresh one, with some of its fields changed.
func submission(change ...func(*tasks.Submission)) tasks.Submission {
	s := tasks.Submission{
		Workspace: workspace, Operation: tasks.OperationMessage, Retention: deadline,
		TaskID: newID(), MessageID: newID(), Conversation: "c", Kind: tasks.KindReply,
		Request: tasks.Request{Content: "hello", Model: "model"}, MaxAttempts: 3, MaxInterruptions: 3,
		DeadlineAfter: deadline, OnAmbiguous: tasks.AmbiguousRetry,
	}
	s.Key = "key " + s.TaskID.String()
	for _, f := range change {
		f(&s)
	}
	s.Fingerprint = s.ComputeFingerprint()
	return s
}

func (k *kit) submitAll(items ...tasks.Submission) []tasks.Submitted {
	k.Helper()
	out, err := k.Store.Submit(k.ctx, items)
	if err != nil {
		k.Fatalf("submit: %v", err)
	}
	if len(out) != len(items) {
		k.Fatalf("submit answered %d of %d items", len(out), len(items))
	}
	return out
}

// submit stores a fresh submission.
func (k *kit) submit(change ...func(*tasks.Submission)) tasks.Submission {
	k.Helper()
	s := submission(change...)
	if out := k.submitAll(s)[0]; out.Err != nil || out.TaskID != s.TaskID || out.Replayed {
		k.Fatalf("submit: %+v", out)
	}
	return s
}

func claimer() tasks.Claimer {
	return tasks.Claimer{Worker: "worker", Lease: lease, ParkMax: parkMax, Provider: "provider"}
}

func ref(s tasks.Submission) tasks.Ref { return tasks.Ref{TaskID: s.TaskID, Workspace: s.Workspace} }

func refs(items []tasks.Submission) []tasks.Ref {
	out := make([]tasks.Ref, len(items))
	for i, s := range items {
		out[i] = ref(s)
	}
	return out
}

func (k *kit) claimAll(by tasks.Claimer, items ...tasks.Ref) []tasks.Claimed {
	k.Helper()
	out, err := k.Store.Claim(k.ctx, by, items)
	if err != nil {
		k.Fatalf("claim: %v", err)
	}
	if len(out) != len(items) {
		k.Fatalf("claim answered %d of %d items", len(out), len(items))
	}
	for i, c := range out {
		if (c.Work != nil) != (c.Decision == tasks.DecisionClaimed) {
			k.Fatalf("claim: %s with work %+v", c.Decision, c.Work)
		}
		if c.Work != nil && (c.Work.TaskID != items[i].TaskID || c.Work.Workspace != items[i].Workspace) {
			k.Fatalf("claim: asked for %v, got %v", items[i], c.Work.Assignment)
		}
	}
	return out
}

func (k *kit) claim(s tasks.Submission) tasks.Claimed {
	k.Helper()
	return k.claimAll(claimer(), ref(s))[0]
}

// take claims a task that must be free.
func (k *kit) take(s tasks.Submission) tasks.Work {
	k.Helper()
	c := k.claim(s)
	if c.Decision != tasks.DecisionClaimed || c.Status != tasks.StatusRunning {
		k.Fatalf("claim: %+v, want claimed", c)
	}
	return *c.Work
}

// started submits a task and claims it.
func (k *kit) started(change ...func(*tasks.Submission)) (tasks.Submission, tasks.Work) {
	k.Helper()
	s := k.submit(change...)
	return s, k.take(s)
}

func (k *kit) wantClaim(s tasks.Submission, decision tasks.Decision, status tasks.Status) tasks.Claimed {
	k.Helper()
	c := k.claim(s)
	if c.Decision != decision || c.Status != status {
		k.Fatalf("claim: %s of a %s task, want %s of a %s one", c.Decision, c.Status, decision, status)
	}
	return c
}

func (k *kit) renew(a tasks.Assignment) bool {
	k.Helper()
	out, err := k.Store.Renew(k.ctx, lease, []tasks.Assignment{a})
	if err != nil || len(out) != 1 {
		k.Fatalf("renew: %v, %v", out, err)
	}
	return out[0] == tasks.RenewalKept
}

func (k *kit) settleAll(items ...tasks.Settlement) []tasks.Settled {
	k.Helper()
	out, err := k.Store.Settle(k.ctx, items)
	if err != nil {
		k.Fatalf("settle: %v", err)
	}
	if len(out) != len(items) {
		k.Fatalf("settle answered %d of %d items", len(out), len(items))
	}
	return out
}

// settle wants a verdict and the status that the task then has.
func (k *kit) settle(s tasks.Settlement, verdict tasks.Verdict, status tasks.Status) {
	k.Helper()
	if out := k.settleAll(s)[0]; out.Verdict != verdict || out.Status != status || (out.Err != nil) != (verdict == tasks.VerdictInvalid) {
		k.Fatalf("settle %s: %+v, want %s and a %s task", s.Outcome, out, verdict, status)
	}
}

func ptr[T any](v T) *T { return &v }

// call is what a provider reports of a call that was paid for.
func call() tasks.Call {
	return tasks.Call{
		WireRequests: 1, ProviderRequestID: "req", Model: "model-2026", InputTokens: ptr[int64](7), OutputTokens: ptr[int64](11),
		PicoUSD: ptr[int64](13), CachedInputTokens: ptr[int64](3), ReasoningTokens: ptr[int64](5), PriceVersion: "2026-11-29",
	}
}

func complete(w tasks.Work, text string) tasks.Settlement {
	return tasks.Settlement{
		Assignment: w.Assignment, Outcome: tasks.OutcomeComplete, Call: call(),
		Candidate: tasks.Candidate{ReplyID: newID(), Text: text, Model: "model-2026", FinishReason: "stop"},
	}
}

func retry(w tasks.Work, after time.Duration) tasks.Settlement {
	return tasks.Settlement{
		Assignment: w.Assignment, Outcome: tasks.OutcomeRetry, RetryAfter: after, Call: tasks.Call{WireRequests: 1, PicoUSD: ptr[int64](0)},
		Failure: tasks.Failure{Class: "overloaded", Message: "come back later"},
	}
}

func fail(w tasks.Work) tasks.Settlement {
	return tasks.Settlement{
		Assignment: w.Assignment, Outcome: tasks.OutcomeFail, Call: tasks.Call{WireRequests: 1, PicoUSD: ptr[int64](0)},
		Failure: tasks.Failure{Class: "permanent", Message: "no such model"},
	}
}

func release(w tasks.Work) tasks.Settlement {
	return tasks.Settlement{Assignment: w.Assignment, Outcome: tasks.OutcomeRelease}
}

// everyOutcome is one settlement of each kind.
func everyOutcome(w tasks.Work) []tasks.Settlement {
	return []tasks.Settlement{complete(w, "late"), retry(w, 0), fail(w), release(w)}
}

func (k *kit) read(s tasks.Submission) tasks.Task {
	k.Helper()
	t, err := k.Store.Task(k.ctx, s.Workspace, s.TaskID)
	if err != nil {
		k.Fatalf("read task: %v", err)
	}
	return t
}

func (k *kit) ledger(s tasks.Submission) []tasks.Attempt {
	k.Helper()
	out, err := k.Store.Attempts(k.ctx, s.Workspace, s.TaskID)
	if err != nil {
		k.Fatalf("read attempts: %v", err)
	}
	return out
}

func (k *kit) conversation(workspace, name string) []tasks.Message {
	k.Helper()
	out, err := k.Store.Conversation(k.ctx, workspace, name, 0, 1000)
	if err != nil {
		k.Fatalf("read conversation: %v", err)
	}
	return out
}

// wantReply wants the task completed with exactly this reply, both on the task and in the conversation.
func (k *kit) wantReply(s tasks.Submission, text string) {
	k.Helper()
	if t := k.read(s); t.Status != tasks.StatusCompleted || t.Reply == nil || t.Reply.Text != text || t.FinishedAt.IsZero() {
		k.Fatalf("the task is %s with the reply %+v, want %q", t.Status, t.Reply, text)
	}
	if got := k.replies(s); !slices.Equal(got, []string{text}) {
		k.Fatalf("the conversation has the replies %q, want only %q", got, text)
	}
}

// replies are the texts that the conversation shows for the task's message.
func (k *kit) replies(s tasks.Submission) []string {
	k.Helper()
	var out []string
	for _, m := range k.conversation(s.Workspace, s.Conversation) {
		for _, r := range m.Replies {
			if m.ID == s.MessageID {
				out = append(out, r.Text)
			}
		}
	}
	return out
}

func (k *kit) wantError(err, want error) {
	k.Helper()
	if !errors.Is(err, want) {
		k.Fatalf("error %v, want %v", err, want)
	}
}

// within wants a duration that real time may have shortened.
func (k *kit) within(what string, got, want time.Duration) {
	k.Helper()
	if got > want || got < want-10*time.Minute {
		k.Fatalf("%s is %s, want %s", what, got, want)
	}
}

// together runs do n times at once, all released at the same moment, and waits for them.
func together(n int, do func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	wg.Wait()
}

// dirty is text as it must never reach Postgres: a NUL at the start and inside, a lone continuation byte, a cut character.
func dirty(s string) string { return "\x00" + s + "\x80\x00-\xe2\x82" }

// cleaned is what is stored of dirty text.
func cleaned(s string) string { return s + "\uFFFD-\uFFFD" }
