package tasks

import (
	"encoding/hex"
	"testing"

	"github.com/google/uuid"
)

func fingerprinted() Submission {
	temperature, tokens := 0.5, 7
	return Submission{
		Operation: "message", Conversation: "c", Kind: KindReply, OnAmbiguous: AmbiguousStop,
		Request: Request{Content: "hi", Model: "m", System: "s", PromptTemplate: "p", Document: Document{ID: "d", Version: "v"},
			Temperature: &temperature, MaxOutputTokens: &tokens},
	}
}

// Fingerprints are stored: another digest of the same inputs would refuse every repeat of a key that is known.
func TestI6_FingerprintStaysTheSame(t *testing.T) {
	for want, s := range map[string]Submission{
		"a3184e08a1da430c09f4449e7042aa4237b1fcaa858827ff4c86ed359109469b": fingerprinted(),
		"b865a62e5913c54ae35e040b25002158eddf05f068f8936059f00559d056d8e0": {},
	} {
		if got := s.ComputeFingerprint(); hex.EncodeToString(got[:]) != want {
			t.Errorf("%x, want %s", got, want)
		}
	}
}

func TestI6_EveryInputIsInTheFingerprint(t *testing.T) {
	zero, none := 0.0, 0
	same := fingerprinted()
	same.Workspace, same.Key, same.Metadata, same.MaxAttempts, same.TraceParent = "w", "k", map[string]string{"a": "b"}, 9, "t"
	same.TaskID, same.MessageID = uuid.New(), uuid.New()
	if same.ComputeFingerprint() != fingerprinted().ComputeFingerprint() {
		t.Error("something that does not change the answer is in the fingerprint")
	}
	seen := map[[32]byte]string{fingerprinted().ComputeFingerprint(): "itself"}
	for name, change := range map[string]func(*Submission){
		"operation":       func(s *Submission) { s.Operation = "x" },
		"conversation":    func(s *Submission) { s.Conversation = "x" },
		"kind":            func(s *Submission) { s.Kind = KindRegenerate },
		"regenerates":     func(s *Submission) { s.Regenerates = uuid.Max },
		"content":         func(s *Submission) { s.Request.Content = "x" },
		"moved byte":      func(s *Submission) { s.Request.Content, s.Request.Model = "him", "" },
		"model":           func(s *Submission) { s.Request.Model = "x" },
		"system":          func(s *Submission) { s.Request.System = "x" },
		"prompt template": func(s *Submission) { s.Request.PromptTemplate = "x" },
		"document":        func(s *Submission) { s.Request.Document.ID = "x" },
		"version":         func(s *Submission) { s.Request.Document.Version = "x" },
		"temperature 0":   func(s *Submission) { s.Request.Temperature = &zero },
		"no temperature":  func(s *Submission) { s.Request.Temperature = nil },
		"tokens 0":        func(s *Submission) { s.Request.MaxOutputTokens = &none },
		"no tokens":       func(s *Submission) { s.Request.MaxOutputTokens = nil },
		"on ambiguous":    func(s *Submission) { s.OnAmbiguous = AmbiguousRetry },
	} {
		s := fingerprinted()
		change(&s)
		f := s.ComputeFingerprint()
		if other, taken := seen[f]; taken {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[f] = name
	}
}
