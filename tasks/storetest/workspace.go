package storetest

import (
	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

var workspaceTests = []test{
	{"I8_another_workspaces_task_is_missing", func(k *kit) {
		s, w := k.started()
		queued := k.submit()
		theirs := s
		theirs.Workspace = "w2"
		theirsQueued := queued
		theirsQueued.Workspace = "w2"
		foreign := w
		foreign.Workspace = "w2"

		k.wantClaim(theirsQueued, tasks.DecisionMissing, "")
		k.wantClaim(theirs, tasks.DecisionMissing, "")
		if c := k.claimAll(claimer(), ref(theirsQueued), ref(queued), ref(theirsQueued)); c[0].Decision != tasks.DecisionMissing ||
			c[1].Decision != tasks.DecisionClaimed || c[2].Decision != tasks.DecisionMissing {
			k.Fatalf("both workspaces in one batch: %+v", c)
		}
		if k.renew(foreign.Assignment) {
			k.Fatalf("renewed from another workspace")
		}
		for _, item := range everyOutcome(foreign) {
			k.settle(item, tasks.VerdictMissing, "")
		}
		_, _, err := k.Store.Cancel(k.ctx, "w2", s.TaskID)
		k.wantError(err, tasks.ErrNotFound)
		_, err = k.Store.Task(k.ctx, "w2", s.TaskID)
		k.wantError(err, tasks.ErrNotFound)
		_, err = k.Store.Attempts(k.ctx, "w2", s.TaskID)
		k.wantError(err, tasks.ErrNotFound)
		if m := k.conversation("w2", "c"); len(m) != 0 {
			k.Fatalf("conversation %+v", m)
		}
		if ids := k.tasks(tasks.Filter{Workspace: "w2"}); len(ids) != 0 {
			k.Fatalf("tasks %v", ids)
		}
		if t := k.read(s); t.Status != tasks.StatusRunning || t.Version != 1 {
			k.Fatalf("task %+v", t)
		}
		if a := k.ledger(s); len(a) != 1 || !a[0].EndedAt.IsZero() || a[0].PicoUSD != nil {
			k.Fatalf("another workspace wrote the ledger: %+v", a)
		}
		k.settle(complete(w, "reply"), tasks.VerdictAccepted, tasks.StatusCompleted)
		k.wantReply(s, "reply")
	}},
	{"I8_conversations_of_one_name_are_apart", func(k *kit) {
		a := k.submit(func(s *tasks.Submission) { s.Request.Content = "secret" })
		b := k.submit(func(s *tasks.Submission) { s.Workspace = "w2" })
		for _, s := range []tasks.Submission{a, b} {
			if m := k.conversation(s.Workspace, "c"); len(m) != 1 || m[0].ID != s.MessageID {
				k.Fatalf("conversation of %s: %+v", s.Workspace, m)
			}
			if ids := k.tasks(tasks.Filter{Workspace: s.Workspace, Conversation: "c"}); len(ids) != 1 || ids[0] != s.TaskID {
				k.Fatalf("tasks of %s: %v", s.Workspace, ids)
			}
		}
	}},
	{"I8_a_refused_key_tells_nothing_of_another_workspace", func(k *kit) {
		k.submit(func(s *tasks.Submission) { s.Key = "k" })
		other := submission(func(s *tasks.Submission) { s.Key, s.Workspace, s.Request.Content = "k", "w2", "other" })
		if out := k.submitAll(other)[0]; out.Err != nil || out.TaskID != other.TaskID || out.Replayed {
			k.Fatalf("%+v", out)
		}
		again := submission(func(s *tasks.Submission) { s.Key, s.Workspace = "k", "w2" })
		if out := k.submitAll(again)[0]; out.TaskID == uuid.Nil || out.TaskID != other.TaskID {
			k.Fatalf("%+v", out)
		}
	}},
}
