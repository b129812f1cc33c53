package tasks

import (
	"fmt"
	"math"

	"github.com/google/uuid"
)

// Check says, wrapping ErrInvalid and naming the field, why a submission cannot be stored: what an id or an index of
// the store would refuse, and would refuse with it every neighbour in the batch. It is not the API's check of what a
// caller may ask for. Names must be clean already, because two names that clean to the same would share data (I8);
// other texts are cleaned by the store.
func (s Submission) Check() error {
	for _, id := range [...]struct {
		name string
		id   uuid.UUID
	}{{"task id", s.TaskID}, {"message id", s.MessageID}} {
		if id.id == uuid.Nil {
			return fmt.Errorf("%w: %s is empty", ErrInvalid, id.name)
		}
	}
	for _, name := range [...]struct{ field, text string }{
		{"workspace", s.Workspace}, {"operation", s.Operation}, {"conversation", s.Conversation},
	} {
		if err := checkName(name.field, name.text); err != nil {
			return err
		}
	}
	if !ValidKey(s.Key) {
		return fmt.Errorf("%w: key is not 1 to %d printable ASCII characters", ErrInvalid, MaxKey)
	}
	for _, text := range [...]struct{ field, text string }{
		{"content", s.Request.Content}, {"system", s.Request.System}, {"prompt template", s.Request.PromptTemplate},
		{"prompt template version", s.Request.PromptTemplateVersion},
		{"model", s.Request.Model}, {"document id", s.Request.Document.ID}, {"document version", s.Request.Document.Version},
		{"trace parent", s.TraceParent},
	} {
		if len(text.text) > MaxInputText {
			return fmt.Errorf("%w: %s has more than %d bytes", ErrInvalid, text.field, MaxInputText)
		}
	}
	if err := s.Request.Chat.check(); err != nil {
		return err
	}
	switch {
	case s.Kind != KindReply && s.Kind != KindRegenerate:
		return fmt.Errorf("%w: kind %q", ErrInvalid, s.Kind)
	case (s.Kind == KindRegenerate) != (s.Regenerates != uuid.Nil):
		return fmt.Errorf("%w: kind %q and regenerates %s do not fit", ErrInvalid, s.Kind, s.Regenerates)
	case s.OnAmbiguous != AmbiguousRetry && s.OnAmbiguous != AmbiguousStop:
		return fmt.Errorf("%w: on ambiguous %q", ErrInvalid, s.OnAmbiguous)
	case s.MaxAttempts < 1 || s.MaxAttempts > math.MaxInt32:
		return fmt.Errorf("%w: max attempts %d", ErrInvalid, s.MaxAttempts)
	case s.MaxInterruptions < 0 || s.MaxInterruptions >= math.MaxInt32:
		return fmt.Errorf("%w: max interruptions %d", ErrInvalid, s.MaxInterruptions)
	case s.DeadlineAfter <= 0:
		return fmt.Errorf("%w: deadline after %s", ErrInvalid, s.DeadlineAfter)
	case s.Request.MaxOutputTokens != nil && (*s.Request.MaxOutputTokens < 1 || *s.Request.MaxOutputTokens > math.MaxInt32):
		return fmt.Errorf("%w: max output tokens %d", ErrInvalid, *s.Request.MaxOutputTokens)
	case s.Reserve != nil && *s.Reserve < 0:
		return fmt.Errorf("%w: reserve %d", ErrInvalid, *s.Reserve)
	}
	return nil
}

// Check says, wrapping ErrInvalid, why a settlement cannot be stored.
func (s Settlement) Check() error {
	if r := s.Call.Recovered; r < 0 || r > 0 && r >= s.Version {
		return fmt.Errorf("%w: version %d recovers the answer of version %d", ErrInvalid, s.Version, r)
	}
	switch s.Outcome {
	case OutcomeComplete:
		if s.Candidate.ReplyID == uuid.Nil {
			return fmt.Errorf("%w: reply id is empty", ErrInvalid)
		}
		if len(s.Candidate.Text) > MaxReplyText {
			return fmt.Errorf("%w: reply has more than %d bytes", ErrInvalid, MaxReplyText)
		}
		if m := s.Candidate.Message; m != "" && (len(m) > MaxReplyText || !isJSON([]byte(m), '{')) {
			return fmt.Errorf("%w: the reply's message is not an object in JSON of at most %d bytes", ErrInvalid, MaxReplyText)
		}
	case OutcomeRetry, OutcomeFail, OutcomeRelease:
	default:
		return fmt.Errorf("%w: outcome %q", ErrInvalid, s.Outcome)
	}
	return nil
}

// ValidKey reports whether key is an idempotency key: 1 to MaxKey printable ASCII characters.
func ValidKey(key string) bool {
	if key == "" || len(key) > MaxKey {
		return false
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}

func checkName(field, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: %s is empty", ErrInvalid, field)
	case len(name) > MaxName:
		return fmt.Errorf("%w: %s has more than %d bytes", ErrInvalid, field, MaxName)
	case Clean(name) != name:
		return fmt.Errorf("%w: %s has a NUL or invalid UTF-8", ErrInvalid, field)
	}
	return nil
}
