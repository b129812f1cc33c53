package storetest

import (
	"reflect"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

func (k *kit) original(s tasks.Submission) tasks.Submission {
	k.Helper()
	o, err := k.Store.Original(k.ctx, s.Workspace, s.TaskID)
	if err != nil {
		k.Fatalf("original: %v", err)
	}
	return o
}

var originalTests = []test{
	{"what_a_task_was_asked_is_read_whole", func(k *kit) {
		s, w := k.started(func(s *tasks.Submission) {
			s.Request = tasks.Request{
				Content: "hello", Model: "model", System: "be kind", PromptTemplate: "t", PromptTemplateVersion: "2",
				Document: tasks.Document{ID: "doc", Version: "3"}, Temperature: ptr(0.7), MaxOutputTokens: ptr(99),
				Chat: chatOf(oddMessages, oddParams),
			}
			s.MaxAttempts, s.MaxInterruptions, s.OnAmbiguous, s.DeadlineAfter = 5, 4, tasks.AmbiguousStop, 3*deadline
			s.Metadata = map[string]string{"team": "blue"}
			s.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		})
		k.settle(fail(w), tasks.VerdictAccepted, tasks.StatusFailed) // what became of it does not matter
		want := tasks.Submission{
			Workspace: s.Workspace, Conversation: s.Conversation, MessageID: s.MessageID, Kind: tasks.KindReply, Request: s.Request,
			MaxAttempts: 5, MaxInterruptions: 4, DeadlineAfter: 3 * deadline, OnAmbiguous: tasks.AmbiguousStop, Metadata: s.Metadata,
		}
		if got := k.original(s); !reflect.DeepEqual(got, want) {
			k.Fatalf("asked %+v, want %+v", got, want)
		}
	}},
	{"what_was_asked_plainly_has_nothing_more", func(k *kit) {
		s := k.submit()
		o := k.original(s)
		if o.Request.Chat != nil || o.Request.Temperature != nil || o.Request.MaxOutputTokens != nil || len(o.Metadata) != 0 || o.Request.Content != "hello" {
			k.Fatalf("asked %+v", o)
		}
	}},
	{"I6_what_was_asked_can_be_asked_again_and_again", func(k *kit) {
		first := k.submit(func(s *tasks.Submission) { s.Request.Chat = chatOf("[1.0]", "{}") })
		for range 2 {
			s := k.original(first)
			s.Kind, s.Regenerates, s.Operation = tasks.KindRegenerate, first.TaskID, tasks.OperationRegenerate
			s.TaskID, s.Retention = newID(), deadline
			s.Key = s.TaskID.String()
			s.Request.Content = "" // the message has it
			if out := k.submitAll(s)[0]; out.Err != nil || out.TaskID != s.TaskID || out.Replayed {
				k.Fatalf("submit: %+v", out)
			}
			o := k.original(s)
			if o.Kind != tasks.KindRegenerate || o.Regenerates != first.TaskID || o.MessageID != first.MessageID || o.Request.Content != "hello" {
				k.Fatalf("asked %+v", o)
			}
			w := k.take(s)
			if w.Request.Content != "hello" || w.MessageID != first.MessageID {
				k.Fatalf("work %+v", w)
			}
			k.wantChat(w.Request.Chat, first.Request.Chat)
			first = s
			first.Request.Chat = o.Request.Chat
		}
	}},
	{"I8_regenerate_needs_a_message_of_its_own_conversation", func(k *kit) {
		s := k.submit()
		for name, change := range map[string]func(*tasks.Submission){
			"another workspace":    func(n *tasks.Submission) { n.Workspace = "w2" },
			"another conversation": func(n *tasks.Submission) { n.Conversation = "d" },
			"no such message":      func(n *tasks.Submission) { n.MessageID = newID() },
		} {
			n := submission(func(n *tasks.Submission) {
				n.Kind, n.Regenerates, n.MessageID = tasks.KindRegenerate, s.TaskID, s.MessageID
			}, change)
			out := k.submitAll(submission(), n)
			if out[0].Err != nil {
				k.Fatalf("%s: its neighbour: %v", name, out[0].Err)
			}
			k.wantError(out[1].Err, tasks.ErrInvalid)
		}
	}},
	{"I8_what_a_task_was_asked_is_its_workspaces", func(k *kit) {
		s := k.submit()
		for _, of := range []struct {
			workspace string
			id        uuid.UUID
		}{{"w2", s.TaskID}, {"", s.TaskID}, {workspace, newID()}, {workspace + "\x00", s.TaskID}} {
			o, err := k.Store.Original(k.ctx, of.workspace, of.id)
			k.wantError(err, tasks.ErrNotFound)
			if !reflect.DeepEqual(o, tasks.Submission{}) {
				k.Fatalf("told %+v", o)
			}
		}
	}},
}
