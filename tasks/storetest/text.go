package storetest

import (
	"strings"
	"unicode/utf8"

	"github.com/fencepost/fencepost/tasks"
)

var textTests = []test{
	{"NUL_and_invalid_UTF8_in_every_text_of_a_submission", func(k *kit) {
		s := k.submit(func(s *tasks.Submission) {
			s.Request = tasks.Request{
				Content: dirty("content"), Model: dirty("model"), System: dirty("system"), PromptTemplate: dirty("template"),
				Document: tasks.Document{ID: dirty("doc"), Version: dirty("version")},
			}
			s.Metadata = map[string]string{dirty("name"): dirty("value"), "quote": `"\u0000"`}
			s.TraceParent = dirty("trace")
		})
		by := claimer()
		by.Worker, by.Provider = dirty("worker"), dirty("provider")
		w := k.claimAll(by, ref(s))[0].Work
		want := tasks.Request{
			Content: cleaned("content"), Model: cleaned("model"), System: cleaned("system"), PromptTemplate: cleaned("template"),
			Document: tasks.Document{ID: cleaned("doc"), Version: cleaned("version")},
		}
		if w == nil || w.Request != want {
			k.Fatalf("work %+v, want the request %+v", w, want)
		}
		t := k.read(s)
		if t.Model != want.Model || t.Document != want.Document || t.Worker != cleaned("worker") {
			k.Fatalf("task %+v", t)
		}
		if len(t.Metadata) != 2 || t.Metadata[cleaned("name")] != cleaned("value") || t.Metadata["quote"] != `"\u0000"` {
			k.Fatalf("metadata %q", t.Metadata)
		}
		if m := k.conversation(workspace, "c"); m[0].Content != want.Content {
			k.Fatalf("message %q", m[0].Content)
		}
		if h := k.Handoffs(); h[0].TraceParent != cleaned("trace") {
			k.Fatalf("handoff %+v", h)
		}
		if a := k.ledger(s); a[0].Worker != cleaned("worker") || a[0].Provider != cleaned("provider") || a[0].Model != want.Model {
			k.Fatalf("attempt %+v", a)
		}
	}},
	{"NUL_and_invalid_UTF8_in_every_text_of_a_settlement", func(k *kit) {
		beside, other := k.started()
		s, w := k.started()
		failed, f := k.started()
		dirtyCall := call()
		dirtyCall.Model, dirtyCall.ProviderRequestID = dirty("model"), dirty("req")
		done := complete(w, dirty("text"))
		done.Candidate.Model, done.Candidate.FinishReason, done.Call = dirty("model"), dirty("stop"), dirtyCall
		broken := fail(f)
		broken.Failure = tasks.Failure{Class: dirty("class"), Message: dirty("message")}
		for i, out := range k.settleAll(done, broken, complete(other, "beside")) {
			if out.Verdict != tasks.VerdictAccepted {
				k.Fatalf("item %d: %+v", i, out)
			}
		}
		k.wantReply(beside, "beside")
		k.wantReply(s, cleaned("text"))
		if r := k.read(s).Reply; r.Model != cleaned("model") || r.FinishReason != cleaned("stop") {
			k.Fatalf("reply %+v", r)
		}
		if a := k.ledger(s); a[0].Model != cleaned("model") || a[0].ProviderRequestID != cleaned("req") {
			k.Fatalf("attempt %+v", a)
		}
		if f := k.read(failed).Failure; f.Class != cleaned("class") || f.Message != cleaned("message") {
			k.Fatalf("failure %+v", f)
		}
		if a := k.ledger(failed); a[0].FailureClass != cleaned("class") {
			k.Fatalf("attempt %+v", a)
		}
	}},
	{"dirty_names_find_nothing", func(k *kit) {
		s := k.submit()
		for _, w := range []string{workspace + "\x00", workspace + "\x80", ""} {
			if c := k.claimAll(claimer(), tasks.Ref{TaskID: s.TaskID, Workspace: w})[0]; c.Decision != tasks.DecisionMissing {
				k.Fatalf("claim in workspace %q: %+v", w, c)
			}
			_, err := k.Store.Task(k.ctx, w, s.TaskID)
			k.wantError(err, tasks.ErrNotFound)
			if m := k.conversation(w, "c"); len(m) != 0 {
				k.Fatalf("conversation in workspace %q: %+v", w, m)
			}
		}
	}},
	{"long_texts", func(k *kit) {
		content := strings.Repeat("long \u2713 ", 100_000)
		s, w := k.started(func(s *tasks.Submission) { s.Request.Content = content })
		if w.Request.Content != content {
			k.Fatalf("content of %d bytes came back as %d", len(content), len(w.Request.Content))
		}
		reply := strings.Repeat("r", tasks.MaxReplyText)
		k.settle(complete(w, reply), tasks.VerdictAccepted, tasks.StatusCompleted)
		if got := k.read(s).Reply.Text; got != reply {
			k.Fatalf("reply of %d bytes came back as %d", len(reply), len(got))
		}
	}},
	{"failure_message_is_cut_between_characters", func(k *kit) {
		s, w := k.started()
		f := fail(w)
		f.Failure.Message = "x" + strings.Repeat("\u2713", tasks.MaxFailureText)
		k.settle(f, tasks.VerdictAccepted, tasks.StatusFailed)
		if m := k.read(s).Failure.Message; len(m) > tasks.MaxFailureText || len(m) < tasks.MaxFailureText-3 || !utf8.ValidString(m) {
			k.Fatalf("message of %d bytes: %q", len(m), m)
		}
	}},
}
