package tasks

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

func storable() Submission {
	return Submission{
		Workspace: "w", Operation: OperationMessage, Key: "k", TaskID: uuid.UUID{1}, MessageID: uuid.UUID{2}, Conversation: "c",
		Kind: KindReply, MaxAttempts: 1, DeadlineAfter: time.Second, OnAmbiguous: AmbiguousStop,
	}
}

func TestSubmission_Check(t *testing.T) {
	good := map[string]func(*Submission){
		"as it is":           func(*Submission) {},
		"the longest":        func(s *Submission) { s.Key, s.Workspace = strings.Repeat("k", MaxKey), strings.Repeat("w", MaxName) },
		"a key of all ASCII": func(s *Submission) { s.Key = ` !"~` },
		"dirty content":      func(s *Submission) { s.Request.Content = "\x00\x80" }, // is cleaned
		"the most attempts":  func(s *Submission) { s.MaxAttempts = math.MaxInt32 },
		"a regeneration":     func(s *Submission) { s.Kind, s.Regenerates = KindRegenerate, uuid.UUID{3} },
	}
	bad := map[string]func(*Submission){
		"task id":                 func(s *Submission) { s.TaskID = uuid.Nil },
		"message id":              func(s *Submission) { s.MessageID = uuid.Nil },
		"workspace":               func(s *Submission) { s.Workspace = "" },
		"operation":               func(s *Submission) { s.Operation = "" },
		"conversation":            func(s *Submission) { s.Conversation = "" },
		"workspace has a NUL":     func(s *Submission) { s.Workspace = "w\x00" },
		"conversation has a NUL":  func(s *Submission) { s.Conversation = "c\xff" },
		"workspace has more":      func(s *Submission) { s.Workspace = strings.Repeat("w", MaxName+1) },
		"key":                     func(s *Submission) { s.Key = "" },
		"key is not":              func(s *Submission) { s.Key = "k\n" },
		"key is":                  func(s *Submission) { s.Key = "k\x7f" },
		"key is not 1 to 255":     func(s *Submission) { s.Key = strings.Repeat("k", MaxKey+1) },
		"content":                 func(s *Submission) { s.Request.Content = strings.Repeat("x", MaxInputText+1) },
		"system":                  func(s *Submission) { s.Request.System = strings.Repeat("x", MaxInputText+1) },
		"kind":                    func(s *Submission) { s.Kind = "" },
		"regenerates":             func(s *Submission) { s.Regenerates = uuid.UUID{3} },
		"kind \"regenerate\" and": func(s *Submission) { s.Kind = KindRegenerate },
		"on ambiguous":            func(s *Submission) { s.OnAmbiguous = "" },
		"max attempts 0":          func(s *Submission) { s.MaxAttempts = 0 },
		"max attempts 2147483648": func(s *Submission) { s.MaxAttempts = math.MaxInt32 + 1 },
		"max interruptions":       func(s *Submission) { s.MaxInterruptions = -1 },
		"deadline":                func(s *Submission) { s.DeadlineAfter = 0 },
		"max output tokens":       func(s *Submission) { n := 0; s.Request.MaxOutputTokens = &n },
	}
	for name, change := range good {
		s := storable()
		if change(&s); s.Check() != nil {
			t.Errorf("%s: %v", name, s.Check())
		}
	}
	for names, change := range bad {
		s := storable()
		change(&s)
		if err := s.Check(); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), names) {
			t.Errorf("%v, want %v that names %q", err, ErrInvalid, names)
		}
	}
}

func TestSettlement_Check(t *testing.T) {
	good := []Settlement{
		{Outcome: OutcomeComplete, Candidate: Candidate{ReplyID: uuid.UUID{1}, Text: strings.Repeat("x", MaxReplyText)}},
		{Outcome: OutcomeRetry}, {Outcome: OutcomeFail}, {Outcome: OutcomeRelease},
	}
	bad := []Settlement{
		{}, {Outcome: "done"}, {Outcome: OutcomeComplete},
		{Outcome: OutcomeComplete, Candidate: Candidate{ReplyID: uuid.UUID{1}, Text: strings.Repeat("x", MaxReplyText+1)}},
	}
	for _, s := range good {
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", s.Outcome, err)
		}
	}
	for _, s := range bad {
		if err := s.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", s.Outcome, err)
		}
	}
}

func TestKey(t *testing.T) {
	secret := NewKey()
	if len(secret) != len("fp_")+64 || !strings.HasPrefix(secret, "fp_") || NewKey() == secret || HashKey(secret) == HashKey(secret+"x") {
		t.Errorf("secret %q", secret)
	}
	if (Key{}).Revoked() || !(Key{RevokedAt: time.Unix(1, 0)}).Revoked() {
		t.Error("a key is revoked from its RevokedAt on")
	}
}
