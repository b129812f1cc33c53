package storetest

import (
	"errors"
	"math"
	"strings"

	"github.com/google/uuid"

	"github.com/fencepost/fencepost/tasks"
)

var poisonTests = []test{
	{"poison_submission_fails_alone", func(k *kit) {
		taken := k.submit()
		poison := map[string]func(*tasks.Submission){
			"no task id":           func(s *tasks.Submission) { s.TaskID = uuid.Nil },
			"no message id":        func(s *tasks.Submission) { s.MessageID = uuid.Nil },
			"task id taken":        func(s *tasks.Submission) { s.TaskID = taken.TaskID },
			"message id taken":     func(s *tasks.Submission) { s.MessageID = taken.MessageID },
			"no workspace":         func(s *tasks.Submission) { s.Workspace = "" },
			"NUL in the workspace": func(s *tasks.Submission) { s.Workspace = "w\x00" },
			"cut conversation":     func(s *tasks.Submission) { s.Conversation = "c\xe2\x82" },
			"long conversation":    func(s *tasks.Submission) { s.Conversation = strings.Repeat("c", tasks.MaxName+1) },
			"no operation":         func(s *tasks.Submission) { s.Operation = "" },
			"no key":               func(s *tasks.Submission) { s.Key = "" },
			"long key":             func(s *tasks.Submission) { s.Key = strings.Repeat("k", tasks.MaxKey+1) },
			"key beyond ASCII":     func(s *tasks.Submission) { s.Key = "clé" },
			"long content":         func(s *tasks.Submission) { s.Request.Content = strings.Repeat("x", tasks.MaxInputText+1) },
			"chat is no array":     func(s *tasks.Submission) { s.Request.Chat = chatOf(`{}`, "") },
			"chat is no JSON":      func(s *tasks.Submission) { s.Request.Chat = chatOf("[\x00]", "") },
			"no chat messages":     func(s *tasks.Submission) { s.Request.Chat = chatOf("", "{}") },
			"chat params":          func(s *tasks.Submission) { s.Request.Chat = chatOf("[]", `[]`) },
			"long chat": func(s *tasks.Submission) {
				s.Request.Chat = chatOf(`["`+strings.Repeat("x", tasks.MaxInputText-6)+`"]`, "{\"\":0}")
			},
			"no attempts":       func(s *tasks.Submission) { s.MaxAttempts = 0 },
			"too many attempts": func(s *tasks.Submission) { s.MaxAttempts = math.MaxInt32 + 1 },
			"interruptions":     func(s *tasks.Submission) { s.MaxInterruptions = -1 },
			"output tokens":     func(s *tasks.Submission) { s.Request.MaxOutputTokens = ptr(math.MaxInt32 + 1) },
			"no deadline":       func(s *tasks.Submission) { s.DeadlineAfter = 0 },
			"kind":              func(s *tasks.Submission) { s.Kind = "other" },
			"on ambiguous":      func(s *tasks.Submission) { s.OnAmbiguous = "" },
			"regenerate nothing": func(s *tasks.Submission) {
				s.Kind, s.Regenerates = tasks.KindRegenerate, taken.TaskID // and a message that is not there
			},
			"regenerate elsewhere": func(s *tasks.Submission) {
				s.Kind, s.Regenerates, s.MessageID, s.Workspace = tasks.KindRegenerate, taken.TaskID, taken.MessageID, "w2"
			},
		}
		var items []tasks.Submission
		var names []string
		for name, change := range poison {
			items, names = append(items, submission(), submission(change)), append(names, "", name)
		}
		items, names = append(items, submission()), append(names, "")
		good := 1
		for i, out := range k.submitAll(items...) {
			if names[i] == "" {
				good++
				if out.Err != nil || out.TaskID != items[i].TaskID {
					k.Errorf("a good submission beside poison: %+v", out)
				}
			} else if !errors.Is(out.Err, tasks.ErrInvalid) || out.TaskID != uuid.Nil {
				k.Errorf("%s: %+v, want %v", names[i], out, tasks.ErrInvalid)
			}
		}
		k.wantCount(good)
	}},
	{"two_submissions_of_one_task_id_in_a_batch", func(k *kit) {
		first := submission()
		second := submission(func(s *tasks.Submission) { s.TaskID = first.TaskID })
		out := k.submitAll(first, second)
		if out[0].Err != nil || !errors.Is(out[1].Err, tasks.ErrInvalid) {
			k.Fatalf("%+v", out)
		}
		k.wantCount(1)
	}},
	{"poison_settlement_fails_alone", func(k *kit) {
		poison := map[string]func(*tasks.Settlement){
			"no reply id": func(s *tasks.Settlement) { s.Candidate.ReplyID = uuid.Nil },
			"long reply":  func(s *tasks.Settlement) { s.Candidate.Text = strings.Repeat("x", tasks.MaxReplyText+1) },
			"outcome":     func(s *tasks.Settlement) { s.Outcome = "other" },
		}
		for name, change := range poison {
			first, w1 := k.started()
			bad, w2 := k.started()
			last, w3 := k.started()
			poisoned := complete(w2, "bad")
			change(&poisoned)
			out := k.settleAll(complete(w1, "first"), poisoned, complete(w3, "last"))
			if out[0].Verdict != tasks.VerdictAccepted || out[2].Verdict != tasks.VerdictAccepted {
				k.Fatalf("%s: beside it %+v and %+v", name, out[0], out[2])
			}
			if out[1].Verdict != tasks.VerdictInvalid || !errors.Is(out[1].Err, tasks.ErrInvalid) {
				k.Fatalf("%s: %+v", name, out[1])
			}
			k.wantReply(first, "first")
			k.wantReply(last, "last")
			if got := k.read(bad).Status; got != tasks.StatusRunning {
				k.Fatalf("%s: the task is %s", name, got)
			}
			k.settle(fail(w2), tasks.VerdictAccepted, tasks.StatusFailed)
		}
	}},
}
