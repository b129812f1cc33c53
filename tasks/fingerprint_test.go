package tasks

import (
	"encoding/hex"
	"encoding/json"
	"reflect"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/uuid"
)

// fingerprinted has every input of the answer set.
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

// inputs changes each field that changes the answer.
var inputs = map[string]func(*Submission){
	"Operation":                     func(s *Submission) { s.Operation += "x" },
	"Conversation":                  func(s *Submission) { s.Conversation += "x" },
	"Kind":                          func(s *Submission) { s.Kind = KindRegenerate },
	"Regenerates":                   func(s *Submission) { s.Regenerates = uuid.UUID{2} },
	"OnAmbiguous":                   func(s *Submission) { s.OnAmbiguous = AmbiguousRetry },
	"Request.Content":               func(s *Submission) { s.Request.Content += "x" },
	"Request.Model":                 func(s *Submission) { s.Request.Model += "x" },
	"Request.System":                func(s *Submission) { s.Request.System += "x" },
	"Request.PromptTemplate":        func(s *Submission) { s.Request.PromptTemplate += "x" },
	"Request.PromptTemplateVersion": func(s *Submission) { s.Request.PromptTemplateVersion += "x" },
	"Request.Document":              func(s *Submission) { s.Request.Document.ID += "x" },
	"Request.Temperature":           func(s *Submission) { t := 0.25; s.Request.Temperature = &t },
	"Request.MaxOutputTokens":       func(s *Submission) { n := 101; s.Request.MaxOutputTokens = &n },
	"Request.Chat":                  func(s *Submission) { s.Request.Chat = &Chat{Messages: json.RawMessage("[1]")} },
}

// others are the fields that do not change the answer, and how each is changed.
var others = map[string]func(*Submission){
	"Workspace":        func(s *Submission) { s.Workspace += "x" }, // scopes the key, and so needs no place in what it is compared with
	"Key":              func(s *Submission) { s.Key += "x" },
	"Fingerprint":      func(s *Submission) { s.Fingerprint[0]++ },
	"Retention":        func(s *Submission) { s.Retention++ },
	"TaskID":           func(s *Submission) { s.TaskID[0]++ },
	"MessageID":        func(s *Submission) { s.MessageID[0]++ },
	"MaxAttempts":      func(s *Submission) { s.MaxAttempts++ },
	"MaxInterruptions": func(s *Submission) { s.MaxInterruptions++ },
	"DeadlineAfter":    func(s *Submission) { s.DeadlineAfter += time.Second },
	"Metadata":         func(s *Submission) { s.Metadata = map[string]string{"a": "b"} },
	"TraceParent":      func(s *Submission) { s.TraceParent += "x" },
	"Reserve":          func(s *Submission) { s.Reserve = new(int64) },
}

func TestI6_EveryInputChangesTheFingerprint(t *testing.T) {
	want := fingerprinted().ComputeFingerprint()
	seen := map[[32]byte]string{want: "unchanged"}
	for name, change := range inputs {
		s := fingerprinted()
		change(&s)
		f := s.ComputeFingerprint()
		if with, dup := seen[f]; dup {
			t.Errorf("%s: the fingerprint is that of %s", name, with)
		}
		seen[f] = name
	}
	for name, change := range map[string]func(*Submission){
		"Document.Version":   func(s *Submission) { s.Request.Document.Version += "x" },
		"no Temperature":     func(s *Submission) { s.Request.Temperature = nil },
		"no MaxOutputTokens": func(s *Submission) { s.Request.MaxOutputTokens = nil },
		"Chat's messages":    func(s *Submission) { s.Request.Chat = &Chat{Messages: json.RawMessage("[2]")} },
		"Chat's params": func(s *Submission) {
			s.Request.Chat = &Chat{Messages: json.RawMessage("[1]"), Params: json.RawMessage("{}")}
		},
		"zero Temperature": func(s *Submission) { s.Request.Temperature = new(float64) },
	} {
		s := fingerprinted()
		change(&s)
		f := s.ComputeFingerprint()
		if with, dup := seen[f]; dup {
			t.Errorf("%s: the fingerprint is that of %s", name, with)
		}
		seen[f] = name
	}
}

func TestI6_NothingElseChangesTheFingerprint(t *testing.T) {
	want := fingerprinted().ComputeFingerprint()
	for name, change := range others {
		s := fingerprinted()
		change(&s)
		if s.ComputeFingerprint() != want {
			t.Errorf("%s changes the fingerprint", name)
		}
	}
}

// The texts that differ only in how their characters are composed are the same texts. The conversation is a place: two
// that look alike are two, and the reply stands in one of them.
func TestI6_NormalFormDoesNotChangeTheFingerprint(t *testing.T) {
	const composed, decomposed = "caf\u00e9", "cafe\u0301"
	for name, field := range map[string]func(*Submission) *string{
		"Content":          func(s *Submission) *string { return &s.Request.Content },
		"Model":            func(s *Submission) *string { return &s.Request.Model },
		"System":           func(s *Submission) *string { return &s.Request.System },
		"PromptTemplate":   func(s *Submission) *string { return &s.Request.PromptTemplate },
		"Document.ID":      func(s *Submission) *string { return &s.Request.Document.ID },
		"Document.Version": func(s *Submission) *string { return &s.Request.Document.Version },
		"Conversation":     func(s *Submission) *string { return &s.Conversation },
	} {
		one, two := fingerprinted(), fingerprinted()
		*field(&one), *field(&two) = composed, decomposed
		if same := one.ComputeFingerprint() == two.ComputeFingerprint(); same != (name != "Conversation") {
			t.Errorf("%s in both forms has the same fingerprint: %t", name, same)
		}
		// What is stored of inputs in normal form was digested byte by byte.
		*field(&two) = composed + "\u0301"
		if one.ComputeFingerprint() == two.ComputeFingerprint() {
			t.Errorf("%s: another text has the same fingerprint", name)
		}
	}
}

// A new field has to be put on one of the two lists.
func TestI6_EveryFieldIsDecided(t *testing.T) {
	var walk func(prefix string, of reflect.Type)
	walk = func(prefix string, of reflect.Type) {
		for i := range of.NumField() {
			name := prefix + of.Field(i).Name
			if name == "Request" {
				walk("Request.", of.Field(i).Type)
				continue
			}
			if (inputs[name] == nil) == (others[name] == nil) {
				t.Errorf("%s: is it an input of the answer?", name)
			}
		}
	}
	walk("", reflect.TypeFor[Submission]())
}

// What moves from one field into the next must not give the same fingerprint.
func TestI6_FieldsDoNotRunIntoOneAnother(t *testing.T) {
	differ := func(a, b, c string) bool {
		if b == "" {
			return true
		}
		one, two := fingerprinted(), fingerprinted()
		one.Request.Content, one.Request.Model = a+b, c
		two.Request.Content, two.Request.Model = a, b+c
		return one.ComputeFingerprint() != two.ComputeFingerprint()
	}
	if err := quick.Check(differ, nil); err != nil {
		t.Error(err)
	}
}
